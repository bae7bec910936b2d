/** One Sentinel that speaks TLS, to its clients and to the primary that it watches. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findPrograms } from '../../../cli/src/lab/servers/index.ts'
import { findFreePort } from '../../../cli/src/lab/servers/ports.ts'
import { PrivateServer } from '../../../cli/src/lab/servers/private-server.ts'
import { answersItself } from '../../../cli/src/lab/servers/redis.ts'
import { ServerProcess } from '../../../cli/src/lab/servers/server-process.ts'
import type { Certificates } from './certificates.ts'

const STOP_GRACE_MS = 5000

export class TlsSentinel extends PrivateServer {
  readonly name = 'redis-sentinel by TLS'
  readonly port: number
  readonly tlsPort: number

  private constructor(port: number, tlsPort: number) {
    super('sentinel', 'SIGTERM', STOP_GRACE_MS)
    this.port = port
    this.tlsPort = tlsPort
  }

  /** @param primaryTlsPort Watched under the name `locks`. */
  static async start(certificates: Certificates, primaryTlsPort: number): Promise<TlsSentinel> {
    const sentinel = new TlsSentinel(await findFreePort(), await findFreePort())
    try {
      await sentinel.#start(certificates.argsFor(sentinel.tlsPort), primaryTlsPort)
      return sentinel
    } catch (error) {
      await sentinel.stop()
      throw error
    }
  }

  async #start(tlsArgs: readonly string[], primaryTlsPort: number): Promise<void> {
    const { port, folder } = this
    const settings = [`port ${port}`, 'bind 127.0.0.1', 'protected-mode no', 'tls-replication yes']
    for (let at = 0; at < tlsArgs.length; at += 2) {
      settings.push(`${tlsArgs[at]?.slice(2)} ${tlsArgs[at + 1]}`)
    }
    settings.push(`dir ${folder}`, `sentinel monitor locks 127.0.0.1 ${primaryTlsPort} 1`)
    // In a file that it may write: a Sentinel keeps there what it has learned.
    const path = join(folder, 'sentinel.conf')
    writeFileSync(path, `${settings.join('\n')}\n`)
    const started = new ServerProcess({
      name: this.name,
      programs: findPrograms('redis'),
      program: 'redis-server',
      args: [path, '--sentinel'],
      folder,
      endSignal: 'SIGKILL',
    })
    this.process = started
    await started.waitUntilReady(() => answersItself(port, started.pid))
  }
}
