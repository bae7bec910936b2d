import { clocks } from '../rules/clocks.ts'
import { luaHeaders } from '../rules/lua-headers.ts'
import type { Specimen } from './specimen.ts'

const SRC = 'packages/holdfast/src'
const ENGINE = `${SRC}/lock/lock.ts`
const SCRIPTS = `${SRC}/backends/redis/scripts.ts`

function banned(line: number, what: string): string {
  return `${ENGINE}:${line}: ${what} is for core/clock.ts and core/owner.ts; use the seams`
}

/** A call of `defineScript`; its text is put together so that the header rule does not find it here. */
function script(name: string, lua: string): string {
  return `const ${name} = defineScript('${name}', /* lua */ \`${lua}\`)\n`
}

export const CODE_SPECIMENS: readonly Specimen[] = [
  {
    rule: clocks,
    title: 'the engine reads clocks',
    files: {
      [ENGINE]: [
        'const a = Date.now() + performance.now()',
        "const b = [new Date(), Date['now'](), process.hrtime.bigint()]",
        'const c = { setTimeout, at: performance.timeOrigin }',
        'const d = globalThis.setInterval(() => setImmediate(a), 5)',
        'const e = AbortSignal.timeout(5)',
        'const f = os.uptime()',
      ].join('\n'),
    },
    complaints: [
      banned(1, 'Date.now'),
      banned(1, 'performance.now'),
      banned(2, 'Date'),
      banned(2, 'Date.now'),
      banned(2, 'process.hrtime'),
      banned(3, 'setTimeout'),
      banned(3, 'performance.timeOrigin'),
      banned(4, 'globalThis.setInterval'),
      banned(4, 'setImmediate'),
      banned(5, 'AbortSignal.timeout'),
      banned(6, 'os.uptime'),
    ],
  },
  {
    rule: clocks,
    title: 'the engine imports clocks and chance',
    files: {
      [ENGINE]: [
        "import { setTimeout as sleep } from 'node:timers/promises'",
        "import { performance as p } from 'node:perf_hooks'",
        "import { hostname, uptime } from 'node:os'",
        "import { createHash, randomUUID as id } from 'node:crypto'",
        'const a = Math.random() + crypto.getRandomValues(b)[0]',
        'const c = await import("node:timers")',
      ].join('\n'),
    },
    complaints: [
      banned(1, 'node:timers/promises'),
      banned(2, 'node:perf_hooks'),
      banned(6, 'node:timers'),
      banned(3, 'uptime'),
      banned(4, 'randomUUID'),
      banned(5, 'Math.random'),
      banned(5, 'crypto.getRandomValues'),
    ],
  },
  {
    rule: clocks,
    title: 'a simulated world reads clocks that are not its own',
    files: { [`${SRC}/sim/world.ts`]: 'Date.now()' },
    complaints: [
      `${SRC}/sim/world.ts:1: Date.now is for core/clock.ts and core/owner.ts; use the seams`,
    ],
  },
  {
    rule: clocks,
    title: 'nothing: types, names of members, the two files, the testkit, and other packages',
    files: {
      [ENGINE]: [
        'let timer: ReturnType<typeof setTimeout>',
        'let at: Date | undefined',
        'const a = { Date: 1, setTimeout: () => 2 }',
        'a.setTimeout()',
        'interface Seams { setTimeout(): void }',
        'queueMicrotask(() => seams.after(5, fn))',
        '// Date.now() is for clock.ts',
      ].join('\n'),
      [`${SRC}/core/clock.ts`]: 'setTimeout(() => Date.now())',
      [`${SRC}/core/owner.ts`]: "import { randomBytes } from 'node:crypto'",
      [`${SRC}/testkit/virtual-clock.ts`]: 'setTimeout(() => Date.now())',
      [`${SRC}/sim/scheduler.ts`]: "import { setImmediate } from 'node:timers/promises'",
      'packages/cli/src/main.ts': 'Date.now()',
      'packages/holdfast/test/unit/a.test.ts': 'Date.now()',
    },
    complaints: [],
  },
  {
    rule: luaHeaders,
    title: 'a script that uses what its header has not, and the reverse',
    files: {
      [SCRIPTS]: script(
        'RELEASE',
        `
  -- KEYS[1] lock    string
  -- KEYS[2] wake    channel
  -- ARGV[1] nonce   22 characters
  -- ARGV[3] keepMs
  if redis.call('GET', KEYS[1]) == ARGV[1] then -- KEYS[2] was published here
    return redis.call('PEXPIRE', KEYS[3], ARGV[ 2 ])
  end
`,
      ),
    },
    complaints: [
      `${SCRIPTS}:1: script 'RELEASE' uses KEYS[3], which its header has not`,
      `${SCRIPTS}:1: script 'RELEASE' has KEYS[2] in its header and does not use it`,
      `${SCRIPTS}:1: script 'RELEASE' uses ARGV[2], which its header has not`,
      `${SCRIPTS}:1: script 'RELEASE' has ARGV[3] in its header and does not use it`,
    ],
  },
  {
    rule: luaHeaders,
    title: 'a computed index without an open header, and an open header for nothing',
    files: {
      [SCRIPTS]:
        script('BATCH', '\n-- KEYS[1] a\nfor i = 1, #KEYS do redis.call("GET", KEYS[i]) end\n') +
        script('LIST', '\n-- ARGV[2..] names\nreturn "ARGV[2]"\n'),
    },
    complaints: [
      `${SCRIPTS}:1: script 'BATCH' has KEYS[1] in its header and does not use it`,
      `${SCRIPTS}:1: script 'BATCH' uses KEYS by a computed index; its header has no KEYS[n..]`,
      `${SCRIPTS}:5: script 'LIST' has ARGV[2..] in its header and does not use it`,
    ],
  },
  {
    rule: luaHeaders,
    title: 'a key that is used in a shared part only, and a text that is known at run time only',
    files: {
      [`${SRC}/backends/redis/parts.ts`]: 'export const OWNED = `redis.call("GET", KEYS[4])`\n',
      [SCRIPTS]: [
        "import { OWNED as PART } from './parts.ts'\n",
        'const LIMIT = 128\n',
        script('EXTEND', `\n-- KEYS[1] lock\nlocal max = \${LIMIT} \${PART} return KEYS[1]\n`),
        script('OTHER', `\${make()}`),
      ].join(''),
    },
    complaints: [
      `${SCRIPTS}:3: script 'EXTEND' uses KEYS[4], which its header has not`,
      `${SCRIPTS}:7: script 'OTHER' is not made of constants that can be read here`,
    ],
  },
  {
    rule: luaHeaders,
    title: 'Lua that is sent without being defined',
    files: {
      [SCRIPTS]: `const PART = "redis.call('GET', name)"\n${script('OTHER', '\nreturn 1\n')}`,
      [`${SRC}/clients/redis.ts`]: "\nclient.eval(`return redis.pcall('TIME')`)\n",
      'packages/cli/src/main.ts': 'const a = "redis.call(\'GET\', name)"\n',
    },
    complaints: [
      `${SCRIPTS}:1: has Lua that no defineScript uses`,
      `${SRC}/clients/redis.ts:2: has Lua that no defineScript uses`,
    ],
  },
  {
    rule: luaHeaders,
    title: 'nothing: a header for each, and one for the rest',
    files: {
      [SCRIPTS]: script(
        'BATCH',
        "\n-- KEYS[1] counter\n-- KEYS[2..] locks\n-- ARGV[1] ttlMs\nreturn {KEYS[1], unpack(KEYS, 2), ARGV[1], 'KEYS[9]'}\n",
      ),
    },
    complaints: [],
  },
]
