import { cycles, layers } from '../rules/layers.ts'
import type { Specimen } from './specimen.ts'

const SRC = 'packages/holdfast/src'
const CLI = 'packages/cli'

/** Made of parts, or the rules would read this file's imports as its own. */
function imports(specifier: string, names = '{ a }'): string {
  return `import ${names} from '${specifier}'\n`
}

export const IMPORT_SPECIMENS: readonly Specimen[] = [
  {
    rule: layers,
    title: 'core imports the engine',
    files: { [`${SRC}/core/backend.ts`]: imports('../lock/lock.ts') },
    complaints: [`${SRC}/core/backend.ts:1: core imports lock; it may import nothing of ours`],
  },
  {
    rule: layers,
    title: 'the engine imports a type of one client',
    files: { [`${SRC}/lock/lock.ts`]: `\n${imports('../clients/redis.ts', 'type { A }')}` },
    complaints: [`${SRC}/lock/lock.ts:2: lock imports clients; it may import core`],
  },
  {
    rule: layers,
    title: 'a backend imports another one',
    files: { [`${SRC}/backends/redlock/node.ts`]: imports('../redis/scripts.ts') },
    complaints: [
      `${SRC}/backends/redlock/node.ts:1: backends/redlock imports backends/redis: backends do not know each other`,
    ],
  },
  {
    rule: layers,
    title: 'a backend imports the engine in a type',
    files: { [`${SRC}/backends/redis/redis.ts`]: "let a: import('../../lock/lock.ts').A\n" },
    complaints: [
      `${SRC}/backends/redis/redis.ts:1: backends imports lock; it may import core, clients, wire`,
    ],
  },
  {
    rule: layers,
    title: 'a backend imports a driver, lazily',
    files: { [`${SRC}/backends/redis/redis.ts`]: "const a = await import('ioredis')\n" },
    complaints: [
      `${SRC}/backends/redis/redis.ts:1: imports the package "ioredis", but holdfast depends on nothing`,
    ],
  },
  {
    rule: layers,
    title: 'connect imports a driver at once, and a package that is no peer',
    files: {
      'packages/holdfast/package.json': '{"peerDependenciesMeta": {"redis": {"optional": true}}}',
      [`${SRC}/connect/drivers.ts`]:
        "const a = await import('redis')\nimport 'redis'\nconst b = await import('pg')\n",
    },
    complaints: [
      `${SRC}/connect/drivers.ts:2: imports the package "redis" before it is needed`,
      `${SRC}/connect/drivers.ts:3: imports the package "pg", which is no optional peer of holdfast`,
    ],
  },
  {
    rule: layers,
    title: 'the client of etcd imports a package that is no peer, and is loaded at once',
    files: {
      'packages/holdfast/package.json':
        '{"peerDependenciesMeta": {"@grpc/grpc-js": {"optional": true}}}',
      [`${SRC}/clients/etcd/member.ts`]: "import '@grpc/grpc-js'\nimport 'long'\n",
      [`${SRC}/clients/etcd/client.ts`]: `import '@grpc/grpc-js'\n${imports('./member.ts')}`,
      [`${SRC}/clients/etcd/other.ts`]: "import type { A } from './member.ts'\n",
    },
    complaints: [
      `${SRC}/clients/etcd/member.ts:2: imports the package "long", which is no optional peer of holdfast`,
      `${SRC}/clients/etcd/client.ts:1: imports the package "@grpc/grpc-js", but holdfast depends on nothing`,
      `${SRC}/clients/etcd/client.ts:2: imports ${SRC}/clients/etcd/member.ts before it is needed`,
    ],
  },
  {
    rule: layers,
    title: 'the library re-exports a type of a package',
    files: { [`${SRC}/guards/postgres.ts`]: "export type { Pool } from 'pg'\n" },
    complaints: [
      `${SRC}/guards/postgres.ts:1: imports the package "pg", but holdfast depends on nothing`,
    ],
  },
  {
    rule: layers,
    title: 'the testkit imports a backend that is not the one in memory',
    files: { [`${SRC}/testkit/fake.ts`]: imports('../backends/redis/redis.ts') },
    complaints: [
      `${SRC}/testkit/fake.ts:1: testkit imports backends/redis; it may import core, lock, recipes, backends/memory`,
    ],
  },
  {
    rule: layers,
    title: 'an entry publishes the simulation',
    files: { [`${SRC}/index.ts`]: "export { a } from './sim/world.ts'\n" },
    complaints: [
      `${SRC}/index.ts:1: entry imports sim; it may import core, clients, backends, guards, stores, lock, recipes, observe, http, connect`,
    ],
  },
  {
    rule: layers,
    title: 'a layer that nobody has placed',
    files: { [`${SRC}/helpers/text.ts`]: imports('../core/assert.ts') },
    complaints: [`${SRC}/helpers/text.ts:1: lies in "helpers", which is no layer`],
  },
  {
    rule: layers,
    title: 'the library imports the command line',
    files: { [`${SRC}/core/clock.ts`]: imports('../../../cli/src/main.ts') },
    complaints: [
      `${SRC}/core/clock.ts:1: imports packages/cli/src/main.ts, which is not published with it`,
    ],
  },
  {
    rule: layers,
    title: 'the command line reaches into the library, by path and by name',
    files: {
      'packages/holdfast/package.json': '{"exports": {".": {}, "./redis": {}}}',
      [`${CLI}/src/main.ts`]: [
        imports('holdfast'),
        imports('holdfast/redis'),
        imports('holdfast/core/clock.js'),
        imports('../../holdfast/src/core/clock.ts'),
      ].join(''),
    },
    complaints: [
      `${CLI}/src/main.ts:3: imports "holdfast/core/clock.js", which is no public entry`,
      `${CLI}/src/main.ts:4: imports packages/holdfast/src/core/clock.ts, past the public entries`,
    ],
  },
  {
    rule: layers,
    title: 'the command line imports what its users would not get',
    files: {
      [`${CLI}/package.json`]:
        '{"dependencies": {"pg": "8"}, "devDependencies": {"@types/x": "1"}}',
      [`${CLI}/src/main.ts`]: [
        imports('pg/lib/utils.js'),
        imports('@types/x', 'type { A }'),
        imports('@types/x'),
        imports('vitest'),
      ].join(''),
    },
    complaints: [
      `${CLI}/src/main.ts:3: imports "@types/x", which its package.json lacks`,
      `${CLI}/src/main.ts:4: imports "vitest", which its package.json lacks`,
    ],
  },
  {
    rule: layers,
    title: 'nothing: every arrow points down',
    files: {
      [`${SRC}/index.ts`]: "export { a } from './lock/lock.ts'\n",
      [`${SRC}/backends/redis/redis.ts`]: [
        imports('./scripts/acquire.ts'),
        imports('../../clients/redis.ts'),
        imports('../../core/seams.ts'),
        imports('node:crypto'),
      ].join(''),
      [`${SRC}/testkit/fake.ts`]: imports('../backends/memory/memory.ts'),
      [`${SRC}/sim/world.ts`]: imports('../testkit/virtual-clock.ts'),
      'packages/holdfast/test/unit/a.test.ts': imports('../../../cli/src/lab/servers/index.ts'),
    },
    complaints: [],
  },
  {
    rule: cycles,
    title: 'two modules import each other, and one itself',
    files: {
      [`${SRC}/lock/wait.ts`]: imports('./lock.ts'),
      [`${SRC}/lock/lock.ts`]: imports('./attempt.ts'),
      [`${SRC}/lock/attempt.ts`]: "export * from './wait.ts'\n",
      'scripts/lib/a.mjs': imports('./a.mjs'),
    },
    complaints: [
      `${SRC}/lock/attempt.ts: imports itself in a circle: ${SRC}/lock/attempt.ts > ${SRC}/lock/wait.ts > ${SRC}/lock/lock.ts > ${SRC}/lock/attempt.ts`,
      'scripts/lib/a.mjs: imports itself in a circle: scripts/lib/a.mjs > scripts/lib/a.mjs',
    ],
  },
  {
    rule: cycles,
    title: 'nothing: two modules speak of types of each other',
    files: {
      [`${SRC}/core/backend.ts`]: imports('./errors.ts', 'type { A }'),
      [`${SRC}/core/errors.ts`]: imports('./backend.ts'),
    },
    complaints: [],
  },
]
