/**
 * A private etcd: 127.0.0.1 only, without TLS and without users unless asked for, alone or one member
 * of several.
 *
 * It is ready when it answers under the name that this start gave it, which is random: somebody
 * else's etcd may have taken the port in between.
 */
import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import { findPrograms, type ServerPrograms } from './find-programs.ts'
import { findFreePort } from './ports.ts'
import { PrivateServer } from './private-server.ts'
import { type Server, ServerProcess, ServerStartError, serverEnv } from './server-process.ts'

export interface EtcdServer extends Server {
  /** `127.0.0.1:<port>`, as an endpoint of clients. */
  readonly endpoint: string
  /** Where it listens for other members. */
  readonly peerPort: number
  /** For running `etcdctl`: the program, and the environment that it needs. */
  readonly etcdctl: { readonly program: string; readonly env: NodeJS.ProcessEnv }
  /** Starts it again on the same ports with the data that it had. A running one is killed before. */
  restart(): Promise<void>
  /** Whether it is the leader, as it sees it. Rejects when it does not answer within a second. */
  isLeader(): Promise<boolean>
}

export interface EtcdOptions {
  /** Further arguments of etcd; they come last, so they win over the defaults. */
  readonly args?: readonly string[]
  /** Milliseconds between heartbeats, 100 by default; elections begin after ten times as long. */
  readonly heartbeatMs?: number
}

/** Where a member listens, and who the others are. */
export interface Place {
  readonly name: string
  readonly clientPort: number
  readonly peerPort: number
  /** Where other members call it; absent: where it listens. */
  readonly calledPort?: number
}

const STOP_GRACE_MS = 5_000
const CALL_MS_MAX = 1_000
const HEARTBEAT_MS_DEFAULT = 100
/** Each try means that somebody took a port within milliseconds. */
const PORT_TRIES = 10

/** Starts a single etcd of its own and resolves when it answers. `findPort` is for tests. */
export async function startEtcdServer(
  options: EtcdOptions = {},
  findPort: () => Promise<number> = findFreePort,
): Promise<EtcdServer> {
  for (let tryNumber = 1; ; tryNumber++) {
    const place = await findPlace(findPort)
    const server = new PrivateEtcd(place, [place], options)
    try {
      await server.start()
      return server
    } catch (error) {
      await server.stop()
      const isPortTaken = error instanceof ServerStartError && error.isPortTaken
      if (!isPortTaken || tryNumber === PORT_TRIES) throw error
    }
  }
}

export async function findPlace(findPort: () => Promise<number>): Promise<Place> {
  const name = `holdfast-${randomBytes(8).toString('hex')}`
  return { name, clientPort: await findPort(), peerPort: await findPort() }
}

export class PrivateEtcd extends PrivateServer implements EtcdServer {
  readonly name: string
  readonly port: number
  readonly #programs: ServerPrograms
  readonly #place: Place
  readonly #members: readonly Place[]
  readonly #options: EtcdOptions

  /** @throws {MissingServerError} */
  constructor(place: Place, members: readonly Place[], options: EtcdOptions) {
    const programs = findPrograms('etcd')
    super('etcd', 'SIGTERM', STOP_GRACE_MS)
    this.#programs = programs
    this.#place = place
    this.#members = members
    this.#options = options
    this.port = place.clientPort
    this.name = `etcd ${place.clientPort}`
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`
  }

  get peerPort(): number {
    return this.#place.peerPort
  }

  get etcdctl(): EtcdServer['etcdctl'] {
    const env = { ...serverEnv(this.#programs), ETCDCTL_API: '3' }
    return { program: join(this.#programs.folder, 'etcdctl'), env }
  }

  async start(): Promise<void> {
    this.launch()
    await this.process?.waitUntilReady(() => this.#answersItself())
  }

  /** Starts the process alone: a member of several answers only when a majority runs. */
  launch(): void {
    const { name, clientPort, peerPort } = this.#place
    const heartbeatMs = this.#options.heartbeatMs ?? HEARTBEAT_MS_DEFAULT
    const members = this.#members.map((one) => `${one.name}=${calledUrl(one)}`)
    this.process = new ServerProcess({
      name: this.name,
      programs: this.#programs,
      program: 'etcd',
      args: [
        ...['--name', name, '--data-dir', join(this.folder, 'data')],
        ...['--listen-client-urls', `http://127.0.0.1:${clientPort}`],
        ...['--advertise-client-urls', `http://127.0.0.1:${clientPort}`],
        ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
        ...['--initial-advertise-peer-urls', calledUrl(this.#place)],
        ...['--initial-cluster', members.join(',')],
        // The token makes the ids of cluster and members: those of two starts are never the same.
        ...['--initial-cluster-token', this.#members.map((one) => one.name).join('+')],
        ...['--heartbeat-interval', `${heartbeatMs}`, '--election-timeout', `${10 * heartbeatMs}`],
        ...['--logger', 'zap', '--log-level', 'warn'],
        ...(this.#options.args ?? []),
      ],
      folder: this.folder,
      endSignal: 'SIGKILL',
    })
  }

  async waitUntilReady(): Promise<void> {
    await this.process?.waitUntilReady(() => this.#answersItself())
  }

  async restart(): Promise<void> {
    await this.process?.kill()
    await this.start()
  }

  async isLeader(): Promise<boolean> {
    const { leader, header } = await askEtcd(this.port, '/v3/maintenance/status')
    return leader !== undefined && leader === (header as Record<string, unknown>)['member_id']
  }

  /** With users switched on it lets nobody look, which is an answer as well. */
  async #answersItself(): Promise<boolean> {
    const { members, header, error } = await askEtcd(this.port, '/v3/cluster/member/list')
    if (typeof error === 'string') return /user name is empty|permission denied/.test(error)
    const own = (members as Record<string, unknown>[] | undefined)?.find(
      ({ name }) => name === this.#place.name,
    )
    const { leader } = await askEtcd(this.port, '/v3/maintenance/status')
    const isOwn =
      own !== undefined && own['ID'] === (header as Record<string, unknown>)['member_id']
    return isOwn && leader !== undefined && leader !== '0'
  }
}

function calledUrl({ peerPort, calledPort = peerPort }: Place): string {
  return `http://127.0.0.1:${calledPort}`
}

/**
 * One call of etcd's JSON gateway: bytes are base64, and 64-bit integers decimal text.
 *
 * @returns also what it says when it refuses. Rejects when it does not answer within a second.
 */
export function askEtcd(
  port: number,
  path: string,
  body: object = {},
): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, method: 'POST', timeout: CALL_MS_MAX }
    const call = request(options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('error', reject)
      response.on('end', () => {
        try {
          resolve(JSON.parse(text) as Record<string, unknown>)
        } catch (error) {
          reject(error)
        }
      })
    })
    call.on('timeout', () => call.destroy(new Error(`no answer within ${CALL_MS_MAX} ms`)))
    call.on('error', reject)
    call.end(JSON.stringify(body))
  })
}
