/**
 * Runs one example of this folder: `node examples/run.mjs quick-start`; without a name it lists them.
 *
 * It sets up what is missing (packages, servers, build), compiles the examples into `dist`, and starts
 * the servers that the example needs and that REDIS_URL, REDIS_CLUSTER, REDLOCK_URL, ETCD_ENDPOINTS or PGHOST
 * does not name: private ones, on free ports of 127.0.0.1, which end with it. Exit code: the example's own; 2 wrong usage;
 * 3 a server is missing.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runInForeground } from '../scripts/lib/children.mjs'
import { main as setUp } from '../scripts/lib/main.mjs'

const HERE = dirname(fileURLToPath(import.meta.url))
const TSC = join(HERE, '../node_modules/typescript/bin/tsc')

const [name = '', ...rest] = process.argv.slice(2)
const names = readdirSync(HERE)
  .flatMap((file) => /^(.+)\.ts$/.exec(file)?.[1] ?? [])
  .sort()

if (name === '') {
  const width = Math.max(...names.map(({ length }) => length))
  const lines = names.map((one) => `  ${one.padEnd(width)}  ${aboutOf(one)}`)
  process.stdout.write(['usage: node examples/run.mjs NAME', '', ...lines, ''].join('\n'))
} else if (!names.includes(name) || rest.length > 0) {
  const wrong =
    rest.length > 0 ? `one name, not ${rest.length + 1}` : `there is no example "${name}"`
  process.stderr.write(`${wrong}; node examples/run.mjs lists them\n`)
  process.exitCode = 2
} else {
  process.exitCode = (await setUp(['build'])) || (await run([TSC, '-p', HERE])) || (await example())
}

/** The first words of its header. */
function aboutOf(example) {
  const text = readFileSync(join(HERE, `${example}.ts`), 'utf8')
  const [, header = ''] = /^\/\*\*(.*?)\*\//s.exec(text) ?? []
  const [about = ''] = header
    .replaceAll(/\s*\n \*\s?/g, ' ')
    .trim()
    .split(/\.(?: |$)|:(?= )/)
  return about.trim()
}

async function example() {
  // There is no such file before the set-up.
  const { startEtcd, startRedis, startRedisCluster, startPostgres } = await import(
    '../packages/cli/dist/lab/servers/index.js'
  )
  const text = readFileSync(join(HERE, `${name}.ts`), 'utf8')
  const servers = []
  const env = { ...process.env }
  try {
    if (/REDIS_URL|connectRedis/.test(text) && !env.REDIS_URL) {
      const redis = await startRedis()
      servers.push(redis)
      env.REDIS_URL = `redis://127.0.0.1:${redis.port}`
    }
    if (/REDIS_CLUSTER/.test(text) && !env.REDIS_CLUSTER) {
      const cluster = await startRedisCluster()
      servers.push(cluster)
      env.REDIS_CLUSTER = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join()
    }
    if (/REDLOCK_URL/.test(text) && !env.REDLOCK_URL) {
      const nodes = await Promise.all([startRedis(), startRedis(), startRedis()])
      servers.push(...nodes)
      env.REDLOCK_URL = `redlock://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`
    }
    if (/ETCD_ENDPOINTS/.test(text) && !env.ETCD_ENDPOINTS) {
      const etcd = await startEtcd()
      servers.push(etcd)
      env.ETCD_ENDPOINTS = etcd.endpoint
    }
    if (/from '(?:pg|postgres)'/.test(text) && !env.PGHOST) {
      const postgres = await startPostgres()
      servers.push(postgres)
      const { host, port, user, database } = postgres.connection
      Object.assign(env, { PGHOST: host, PGPORT: `${port}`, PGUSER: user, PGDATABASE: database })
    }
    return await run([join(HERE, 'dist', `${name}.js`)], env)
  } catch (error) {
    if (error.name !== 'MissingServerError') throw error
    process.stderr.write(
      `${error.message}, or set REDIS_URL, REDLOCK_URL, ETCD_ENDPOINTS and PGHOST to servers of yours\n`,
    )
    return 3
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
  }
}

function run(args, env = process.env) {
  return runInForeground(process.execPath, args, { cwd: process.cwd(), env })
}
