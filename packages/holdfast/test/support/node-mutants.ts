/**
 * Bugs on the side of a Redis node, each twice: in the Lua text of a script, where the comparison with
 * the model finds it, and in the model, where a simulation has to. As patches of the sources, never as
 * switches in what is shipped.
 */
import type { Patch } from '../../src/sim/mutants.ts'

export interface NodeMutant {
  readonly name: string
  readonly lua: Patch
  readonly model: Patch
}

const REDIS = 'backends/redis/scripts/'
const SHARED = 'wire/'
const MODEL = 'sim/node/scripts/'

export type Change = readonly [file: string, text: string, replacement: string]

/** @param lua Its file under `src`. @param model Its file among the models. */
export function mutant(name: string, lua: Change, model: Change): NodeMutant {
  return {
    name,
    lua: { name, file: lua[0], text: lua[1], replacement: lua[2] },
    model: { name, file: MODEL + model[0], text: model[1], replacement: model[2] },
  }
}

const ACQUIRING: readonly NodeMutant[] = [
  mutant(
    'acquire sees no tombstone of a free name',
    [
      `${REDIS}acquire.ts`,
      "if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then",
      "if redis.call('EXISTS', KEYS[1]) > 0 then",
    ],
    [
      'granting.ts',
      "if (run.read(tombstone) !== null) return ['cancelled']\n  // A tombstone of another type stands for nothing, but the name is not granted beside it.\n  if (run.exists(lock) || run.exists(tombstone)) {",
      "if (run.exists(lock) && run.read(tombstone) !== null) return ['cancelled']\n  if (run.exists(lock)) {",
    ],
  ),
  mutant(
    'acquire repeats the grant to whoever asks',
    [
      `${REDIS}acquire.ts`,
      "redis.call('PTTL', KEYS[1])\n  if string.sub(value, 1, 27) == own then",
      "redis.call('PTTL', KEYS[1])\n  if string.sub(value, 1, 4) == 'hf1:' then",
    ],
    [
      'granting.ts',
      '  if (isOf(own, value)) {\n    if (left < 0) run.expire',
      '  if (isOurs(value)) {\n    if (left < 0) run.expire',
    ],
  ),
  mutant(
    'acquire writes no TTL',
    [`${REDIS}acquire.ts`, ".. now .. ARGV[2], 'PX', ARGV[1])", '.. now .. ARGV[2])'],
    [
      'granting.ts',
      'drawn.nowUs, metadata), Number(ttl))\n  return BigInt',
      "drawn.nowUs, metadata), 'for ever')\n  return BigInt",
    ],
  ),
  mutant(
    'acquire leaves no mark that somebody waits',
    [`${REDIS}acquire.ts`, '  if KEYS[4] then\n', '  if false then\n'],
    ['granting.ts', 'if (want !== null) run.trySet(...want, WANT_MS)', ''],
  ),
  mutant(
    'the counter goes back to the clock',
    [
      `${REDIS}next-token.ts`,
      'if last and (#last > #now or (#last == #now and last >= now)) then',
      'if false then',
    ],
    [
      'tokens.ts',
      'if (last === null || !isAtLeast(last, nowUs)) return',
      'if (last === null || last !== null) return',
    ],
  ),
  mutant(
    'a counter ahead of the clock is not raised',
    [
      `${REDIS}next-token.ts`,
      "redis.call('INCR', counter)\n",
      "redis.call('INCRBY', counter, 0)\n",
    ],
    [
      'tokens.ts',
      'return { token: run.increment(counter), nowUs }\n}\n\n/** A proposal',
      "return { token: (run.increment(counter), run.set(counter, last, 'for ever'), last), nowUs }\n}\n\n/** A proposal",
    ],
  ),
  mutant(
    'a counter is compared as text alone',
    [`${REDIS}next-token.ts`, '(#last > #now or (#last == #now and last >= now))', 'last >= now'],
    ['tokens.ts', '!isAtLeast(last, nowUs)', 'last < nowUs'],
  ),
  mutant(
    'raise lowers',
    [
      `${REDIS}raise.ts`,
      'if last and (#last > #ARGV[1] or (#last == #ARGV[1] and last >= ARGV[1])) then',
      'if last == ARGV[1] then',
    ],
    [
      'tokens.ts',
      'if (last !== null && isAtLeast(last, token)) return 0',
      'if (last === token) return 0',
    ],
  ),
]

const HOLDING: readonly NodeMutant[] = [
  mutant(
    'release deletes whosever it is',
    [
      `${SHARED}release.ts`,
      "if type(value) ~= 'string' or string.sub(value, 1, 27) ~= ARGV[1] then",
      "if type(value) ~= 'string' then",
    ],
    [
      'holding.ts',
      "(run, [lock = '', want = ''], [mark = '']) => {\n  if (!isOf(mark, run.read(lock))) return 0",
      "(run, [lock = '', want = ''], _) => {\n  if (run.read(lock) === null) return 0",
    ],
  ),
  mutant(
    'release wakes nobody',
    [
      `${SHARED}release.ts`,
      "a user without rights on channels has released all the same.\n  redis.pcall('PUBLISH', KEYS[1], '')\n",
      'a user without rights on channels has released all the same.\n',
    ],
    [
      'holding.ts',
      'return 0\n  if (run.del(lock, want) === 2) run.publish(lock)\n  return 1\n}\n\nexport const rest',
      'return 0\n  run.del(lock, want)\n  return 1\n}\n\nexport const rest',
    ],
  ),
  mutant(
    'an early release frees the name at once',
    [
      `${SHARED}release.ts`,
      "redis.call('SET', KEYS[1], resting, 'PX', ARGV[2])",
      "redis.call('DEL', KEYS[1])",
    ],
    ['holding.ts', 'run.set(lock, restingValue(value), Number(restMs))', 'run.del(lock)'],
  ),
  mutant(
    'renew takes no notice of the owner',
    [`${REDIS}renew.ts`, 'if value and string.sub(value, 1, 27) == ARGV[1] then', 'if value then'],
    [
      'holding.ts',
      'if (isOf(mark, value)) {\n    if (run.pttl',
      'if (value !== null) {\n    if (run.pttl',
    ],
  ),
  mutant(
    'renew brings back what is over',
    [
      `${REDIS}renew.ts`,
      "  return redis.call('EXISTS', KEYS[1]) == 0 and 'expired' or 'superseded'",
      "  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[3] .. ':{}', 'PX', ARGV[2])\n  return 'renewed'",
    ],
    [
      'holding.ts',
      "if (value === null) return run.exists(lock) ? 'superseded' : 'expired'",
      "if (value === null) {\n    run.set(lock, mark + token + ':{}', Number(ttl))\n    return 'renewed'\n  }",
    ],
  ),
  mutant(
    'renew shortens',
    [`${REDIS}renew.ts`, "if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then", 'if true then'],
    ['holding.ts', 'if (run.pttl(lock) < Number(ttl)) run.expire', 'run.expire'],
  ),
  mutant(
    'cancel leaves no tombstone',
    [`${REDIS}cancel.ts`, "redis.call('SET', KEYS[3], '', 'PX', life)\n", ''],
    ['holding.ts', "  run.set(tombstone, '', lifeMs)\n", ''],
  ),
  mutant(
    'cancel leaves a tombstone only where there was nothing to delete',
    [
      `${REDIS}cancel.ts`,
      "redis.call('SET', KEYS[3], '', 'PX', life)\n",
      "if string.sub(redis.call('MGET', KEYS[1])[1] or '', 1, 27) ~= ARGV[1] then\n  redis.call('SET', KEYS[3], '', 'PX', life)\nend\n",
    ],
    [
      'holding.ts',
      "  run.set(tombstone, '', lifeMs)\n",
      "  if (!isOf(mark, run.read(lock))) run.set(tombstone, '', lifeMs)\n",
    ],
  ),
  mutant(
    'proclaim takes the TTL away',
    [
      `${REDIS}proclaim.ts`,
      "redis.call('SET', KEYS[1], proclaimed, 'XX', 'KEEPTTL')",
      "redis.call('SET', KEYS[1], proclaimed)",
    ],
    [
      'holding.ts',
      "run.set(lock, proclaimed, 'as it was')",
      "run.set(lock, proclaimed, 'for ever')",
    ],
  ),
]

const PASSING_ON: readonly NodeMutant[] = [
  mutant(
    'hand-over takes no notice of the owner',
    [`${REDIS}hand-over.ts`, 'if string.sub(value, 1, 27) ~= ARGV[1] then', "if value == '' then"],
    [
      'granting.ts',
      "if (!isOf(mark, value)) return ['not-held']",
      "if ((value ?? '') === '') return ['not-held']",
    ],
  ),
  mutant(
    'hand-over grants to an owner that was cancelled',
    [
      `${REDIS}hand-over.ts`,
      "if found[3] or (foreign and ARGV[6] ~= '1') then",
      "if foreign and ARGV[6] ~= '1' then",
    ],
    [
      'granting.ts',
      "if (run.read(tombstone) !== null || (isForeign && even !== '1')) {",
      "if (isForeign && even !== '1') {",
    ],
  ),
  mutant(
    'hand-over grants twice when it is sent again',
    [`${REDIS}hand-over.ts`, 'if string.sub(value, 1, 27) == next_mark then', 'if false then'],
    [
      'granting.ts',
      "  if (isOf(markOf(nextOwner), value)) return ['again'",
      "  if (value === 'never') return ['again'",
    ],
  ),
  mutant(
    'revoke takes from another holder than was seen',
    [`${REDIS}revoke.ts`, 'elseif token_seen ~= ARGV[2] then', 'elseif not token_seen then'],
    [
      'granting.ts',
      'if (!isForeign && seen?.token !== wanted)',
      'if (!isForeign && seen === null)',
    ],
  ),
  mutant(
    'revoke leaves no tombstone',
    [
      `${REDIS}revoke.ts`,
      "  redis.call('SET', tombstone, '', 'PX', math.max(2 * left, tonumber(ARGV[5])))\n",
      '',
    ],
    ['granting.ts', "    run.set(tombstone, '', Math.max(2 * left, Number(life)))\n", ''],
  ),
  mutant(
    'revoke takes the TTL away',
    [
      `${REDIS}revoke.ts`,
      "redis.call('SET', KEYS[1], value, 'XX', 'KEEPTTL')",
      "redis.call('SET', KEYS[1], value)",
    ],
    ['granting.ts', "left < 0 ? leftMs : 'as it was'", "left < 0 ? leftMs : 'for ever'"],
  ),
  mutant(
    'a marker of another server counts',
    [`${REDIS}gate.ts`, 'if seen ~= run_id then', 'if not seen then'],
    ['gate.ts', 'runId === run.runId && state !== undefined', 'state !== undefined'],
  ),
  mutant(
    'whoever asks may let the server grant',
    [
      `${REDIS}gate.ts`,
      "if state ~= 'waiting' or inc ~= ARGV[1] or longest_seen ~= ARGV[2] then",
      "if state ~= 'waiting' then",
    ],
    [
      'gate.ts',
      "if (found.state !== 'waiting' || !isTheOneWaitedFor) return 0",
      "if (found.state !== 'waiting') return 0",
    ],
  ),
]

export const NODE_MUTANTS: readonly NodeMutant[] = [...ACQUIRING, ...HOLDING, ...PASSING_ON]
