/** Authorities that a server's certificate is checked against, as a caller gives them. */
import { X509Certificate } from 'node:crypto'

/**
 * Whether a PEM text holds a certificate. OpenSSL passes over one that holds none, and then trusts nobody: what is
 * told is that the server is not trusted, and not why.
 */
export function holdsCertificate(pem: string | Uint8Array): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}

export const CERTIFICATES_ALLOWED = 'certificates in PEM, of which this holds none'
