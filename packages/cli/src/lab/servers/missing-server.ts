/** Which servers the lab and the tests know how to start. */
export type ServerKind = 'redis' | 'postgres' | 'etcd'

/** What each kind is called where people look for it. */
const SERVER_NAMES: Readonly<Record<ServerKind, string>> = {
  redis: 'redis-server',
  postgres: 'PostgreSQL',
  etcd: 'etcd',
}

const PACKAGES: Readonly<Record<ServerKind, string>> = {
  redis: 'redis-server',
  postgres: 'postgresql',
  etcd: 'etcd-server',
}

/** A server program is neither on this machine nor in the cache folder. Nothing was started. */
export class MissingServerError extends Error {
  static {
    this.prototype.name = 'MissingServerError'
  }

  /** `redis-server`, `PostgreSQL` or `etcd`. */
  readonly server: string

  /** @param reason Why the set-up could not get it either, if it tried. */
  constructor(kind: ServerKind, reason?: string) {
    const why = reason === undefined ? '' : ` (${reason})`
    super(
      `${SERVER_NAMES[kind]} is not on this machine${why}: run "npm run lab" once in the ` +
        `repository, which unpacks it into a cache folder, or install the package ${PACKAGES[kind]}`,
    )
    this.server = SERVER_NAMES[kind]
  }
}
