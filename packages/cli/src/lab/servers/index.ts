/**
 * Private servers for the lab and the tests: each on a free port of 127.0.0.1, in a folder of its
 * own under the folder for temporary files, ended by process number.
 */
import { type EtcdOptions, type EtcdServer, startEtcdServer } from './etcd.ts'
import { type EtcdCluster, type EtcdClusterOptions, startEtcdMembers } from './etcd-cluster.ts'
import { type PostgresOptions, type PostgresServer, startPostgresServer } from './postgres.ts'
import { type RedisOptions, type RedisServer, startRedisServer } from './redis.ts'
import { type RedisCluster, type RedisClusterOptions, startCluster } from './redis-cluster.ts'
import {
  type RedisSentinels,
  type RedisSentinelsOptions,
  startSentinelGroup,
} from './redis-sentinels.ts'
import { createServerFolder, removeServerFolder, sweepDeadRuns } from './run-folder.ts'

export { type ClockShim, makeClockShim, whyNoClockShim } from './clock-shim.ts'
export type { EtcdOptions, EtcdServer } from './etcd.ts'
export type { EtcdCluster, EtcdClusterOptions } from './etcd-cluster.ts'
export { findPrograms, type ServerPrograms } from './find-programs.ts'
export { MissingServerError, type ServerKind } from './missing-server.ts'
export type { PostgresOptions, PostgresServer } from './postgres.ts'
export { makePreload, whyNoPreload } from './preload.ts'
export type { RedisOptions, RedisServer } from './redis.ts'
export type { RedisCluster, RedisClusterOptions } from './redis-cluster.ts'
export type { RedisSentinels, RedisSentinelsOptions } from './redis-sentinels.ts'
export { sweepDeadRuns } from './run-folder.ts'
export { type Server, ServerStartError } from './server-process.ts'
export { whatIsMissing } from './what-is-missing.ts'

let firstSweep: Promise<number> | null = null

/** Once per process: what dead runs left is gone before the first server of this one starts. */
function sweepOnce(): Promise<number> {
  firstSweep ??= sweepDeadRuns()
  return firstSweep
}

/** A folder of this run for files without a server; removed with the run at the latest. */
export async function openFolder(prefix: string): Promise<{ path: string; remove(): void }> {
  await sweepOnce()
  const path = createServerFolder(prefix)
  return { path, remove: () => removeServerFolder(path) }
}

/** @throws {MissingServerError} before anything is started. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  await sweepOnce()
  return startRedisServer(options)
}

/** @throws {MissingServerError} before anything is started. */
export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  await sweepOnce()
  return startCluster(options)
}

/** @throws {MissingServerError} before anything is started. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  await sweepOnce()
  return startPostgresServer(options)
}

/** @throws {MissingServerError} before anything is started. */
export async function startRedisSentinels(
  options: RedisSentinelsOptions = {},
): Promise<RedisSentinels> {
  await sweepOnce()
  return startSentinelGroup(options)
}

/** @throws {MissingServerError} before anything is started. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  await sweepOnce()
  return startEtcdServer(options)
}

/** @throws {MissingServerError} before anything is started. */
export async function startEtcdCluster(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
  await sweepOnce()
  return startEtcdMembers(options)
}
