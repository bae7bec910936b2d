/**
 * Certificates for tests of TLS, made on the spot: Node can read and check X.509, but not write it,
 * and a program that could is not on every machine.
 *
 * Only what a server on 127.0.0.1 needs: one self-signed authority, one certificate under it, P-256
 * keys (RFC 5280, section 4.1; the encoding is DER, ITU-T X.690).
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Certificates {
  /** PEM, of the authority: what a client must know to trust the server. */
  readonly ca: string
  /** Files of a certificate of 127.0.0.1 that no authority stands behind, and of its key. */
  readonly selfSigned: Readonly<{ cert: string; key: string }>
  /** Arguments of a redis-server that serves TLS on a port beside its plain one. */
  argsFor(tlsPort: number): string[]
  /** Removes the files. */
  remove(): void
}

const DAY_MS = 86_400_000
const ECDSA_WITH_SHA256 = '06082a8648ce3d040302'
const COMMON_NAME = '0603550403'
const BASIC_CONSTRAINTS = '0603551d13'
const SUBJECT_ALT_NAME = '0603551d11'

export function makeCertificates(): Certificates {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const server = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuer = { name: 'holdfast test authority', key: authority.privateKey }
  const isAuthority = der(0x30, der(0x01, Buffer.from([0xff])))
  const ca = certificate(issuer, issuer.name, authority.publicKey, [BASIC_CONSTRAINTS, isAuthority])
  const itsAddress = der(0x30, der(0x87, Buffer.from([127, 0, 0, 1])))
  const own = certificate(issuer, '127.0.0.1', server.publicKey, [SUBJECT_ALT_NAME, itsAddress])
  const itself = { name: '127.0.0.1', key: server.privateKey }
  const alone = certificate(itself, itself.name, server.publicKey, [SUBJECT_ALT_NAME, itsAddress])
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tls-'))
  const write = (file: string, text: string | Buffer): string => {
    const path = join(folder, file)
    writeFileSync(path, text)
    return path
  }
  const files = {
    '--tls-ca-cert-file': write('ca.pem', ca),
    '--tls-cert-file': write('server.pem', own),
    '--tls-key-file': write(
      'server.key',
      server.privateKey.export({ type: 'pkcs8', format: 'pem' }),
    ),
  }
  return {
    ca,
    selfSigned: { cert: write('alone.pem', alone), key: files['--tls-key-file'] },
    argsFor: (tlsPort) => [
      ...Object.entries(files).flat(),
      ...['--tls-port', `${tlsPort}`, '--tls-auth-clients', 'no'],
    ],
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** PEM of a certificate for `publicKey`, signed by `issuer`, good from yesterday to tomorrow. */
function certificate(
  issuer: Readonly<{ name: string; key: KeyObject }>,
  subject: string,
  publicKey: KeyObject,
  [extension, value]: readonly [string, Buffer],
): string {
  const algorithm = der(0x30, Buffer.from(ECDSA_WITH_SHA256, 'hex'))
  const positive = Buffer.concat([Buffer.from([1]), randomBytes(15)])
  const nowMs = Date.now()
  const signed = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, positive),
    algorithm,
    nameOf(issuer.name),
    der(0x30, timeOf(nowMs - DAY_MS), timeOf(nowMs + DAY_MS)),
    nameOf(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, der(0x30, Buffer.from(extension, 'hex'), der(0x04, value)))),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', signed, issuer.key)])
  const text = der(0x30, signed, algorithm, der(0x03, signature)).toString('base64')
  const lines = text.match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

function nameOf(commonName: string): Buffer {
  const attribute = der(0x30, Buffer.from(COMMON_NAME, 'hex'), der(0x0c, Buffer.from(commonName)))
  return der(0x30, der(0x31, attribute))
}

/** GeneralizedTime, in seconds of UTC. */
function timeOf(atMs: number): Buffer {
  const digits = new Date(atMs).toISOString().replace(/[-:T]|\.\d+/g, '')
  return der(0x18, Buffer.from(digits))
}

/** Tag, length in its shortest form, contents. Nothing here is longer than 65,535 bytes. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const contents = Buffer.concat(parts)
  const { length } = contents
  const long = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...(length < 128 ? [length] : long)]), contents])
}
