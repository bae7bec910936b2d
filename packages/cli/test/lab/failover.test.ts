import { expect, test } from 'vitest'
import { runLab } from './fixtures/run-lab.ts'
import { noSqlite } from './fixtures/sqlite.ts'

if (noSqlite !== null) console.warn(`left out, the lab without servers: ${noSqlite}`)

interface Report {
  readonly scenarios: readonly {
    readonly arms: readonly {
      readonly name: string
      readonly metrics: Readonly<Record<string, number>>
      readonly verdict: string
    }[]
  }[]
}

/** Late writes and how many of them were refused, by arm. */
async function lateWrites(args: readonly string[]): Promise<unknown> {
  const all = ['failover', '--rounds', '1', '--seed', '5', '--json']
  const { code, stdout, stderr, leftovers } = await runLab([...args, ...all])
  expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
  const [scenario] = (JSON.parse(stdout) as Report).scenarios
  return scenario?.arms.map(({ name, metrics, verdict }) => {
    return [name, metrics['lateWrites'], metrics['refusedLate'], verdict]
  })
}

// A leader that was stopped, and one that has resigned, must not write over the next one.
test('whatever ends a leader, another one leads and the guard refuses the deposed one', async () => {
  expect(await lateWrites([])).toEqual([
    ['bare writes, redis, ttl 1 s', 1, 0, 'holds'],
    ...['redis', 'redlock of 3'].flatMap((store) =>
      [1, 2, 5].map((seconds) => [`${store}, ttl ${seconds} s`, 2, 2, 'holds']),
    ),
    // A quick run has no time for the longest TTL of every store.
    ...['etcd, one member', 'etcd, three members'].flatMap((store) => [
      ...[1, 2].map((seconds) => [`${store}, ttl ${seconds} s`, 2, 2, 'holds']),
      [`${store}, ttl 5 s`, undefined, undefined, 'skipped'],
    ]),
    ...['killed', 'stopped'].flatMap((fault) =>
      [2, 5].map((seconds) => {
        const name = `etcd, three members, its leader ${fault}, ttl ${seconds} s`
        return [name, undefined, undefined, seconds === 5 ? 'skipped' : 'holds']
      }),
    ),
  ])
})

test.runIf(noSqlite === null)('on files of SQLite too', async () => {
  expect(await lateWrites(['--embedded'])).toEqual([
    ['bare writes, sqlite, ttl 1 s', 1, 0, 'holds'],
    ...[1, 2, 5].map((seconds) => [`sqlite, ttl ${seconds} s`, 1, 1, 'holds']),
  ])
})
