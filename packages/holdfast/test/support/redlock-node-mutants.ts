/** Bugs of a Redlock's nodes, in the Lua text and in the model; see node-mutants.ts. */
import { mutant, type NodeMutant } from './node-mutants.ts'
import { ADMISSION } from './redlock-admission-mutants.ts'

const LUA = 'backends/redlock/scripts/'
const MODEL = 'redlock/'

const NO_MARKER = "if not marker then\n  return {'amnesia', 'empty', ''}\nend\n"

const VOTING: readonly NodeMutant[] = [
  mutant(
    'a node without a marker votes at once',
    [
      `${LUA}gate.ts`,
      NO_MARKER,
      "if not marker then\n  counter = counter or ''\n  marker = 'hfm1:v:' .. string.rep('-', 23) .. set_id .. ':03:99999999:' .. run_id\nend\n",
    ],
    [
      `${MODEL}gate.ts`,
      "if (text === null) return ['amnesia', 'empty', '']",
      'if (text === null) return null',
    ],
  ),
  mutant(
    'a node that was restarted votes on',
    [
      `${LUA}gate.ts`,
      `end\n${NO_MARKER}`,
      `end\n${NO_MARKER}run_id = string.sub(marker, 66, 105)\n`,
    ],
    [
      `${MODEL}gate.ts`,
      "  if (marker.runId !== (asked.runId || run.runId)) return ['amnesia', 'restarted', text]\n",
      '',
    ],
  ),
  mutant(
    'a node that lost a counter votes on',
    [`${LUA}gate.ts`, NO_MARKER, `${NO_MARKER}counter = counter or ''\n`],
    [
      `${MODEL}gate.ts`,
      "  if (asked.counter === null) return ['amnesia', 'no-counter', text]\n",
      '',
    ],
  ),
  mutant(
    'a node votes for whichever set of nodes asks',
    [`${LUA}gate.ts`, NO_MARKER, `${NO_MARKER}set_id = string.sub(marker, 31, 52)\n`],
    [
      `${MODEL}gate.ts`,
      'const { marker: text, setId, ttlMs } = asked\n',
      "const { marker: text, ttlMs } = asked\n  const setId = text?.slice(30, 52) ?? ''\n",
    ],
  ),
  mutant(
    'a node votes for a longer time than a recoverer waits',
    [`${LUA}gate.ts`, 'if ttl and tonumber(ttl) > longest then', 'if false then'],
    [`${MODEL}gate.ts`, "return isTooLong ? ['too-long', marker.longestMs] : null", 'return null'],
  ),
  mutant(
    'a node is granted without its tombstone being seen',
    [
      `${LUA}acquire.ts`,
      "if found[2] then\n  return {'cancelled'}\nend\nlocal own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'\nif value then\n  local left",
      "local own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'\nif value then\n  local left",
    ],
    [
      `${MODEL}granting.ts`,
      "  if (run.read(tombstone) !== null) return ['cancelled']\n  const owner = tombstone",
      '  const owner = tombstone',
    ],
  ),
  mutant(
    'a node repeats the grant to whoever asks',
    [
      `${LUA}acquire.ts`,
      'if string.sub(value, 1, 27) == own then\n    if string.find',
      "if string.sub(value, 1, 4) == 'hf1:' then\n    if string.find",
    ],
    [
      `${MODEL}granting.ts`,
      'if (isOf(markOf(owner), value)) return repeat(',
      'if (isOurs(value)) return repeat(',
    ],
  ),
  mutant(
    'a repair counts as a vote',
    [
      `${LUA}acquire.ts`,
      '    if string.find(value, \'^{"s":%d+,"f":1,\', 48) then\n      return {\'repaired\'}\n    end\n',
      '',
    ],
    [
      `${MODEL}granting.ts`,
      "  if (isRepaired(value)) return ['repaired']\n  if (left",
      '  if (left',
    ],
  ),
  mutant(
    'a node grants without a TTL',
    [`${LUA}acquire.ts`, ".. ARGV[5], 'PX', ttl, 'NX')", ".. ARGV[5], 'NX')"],
    [
      `${MODEL}granting.ts`,
      'run.setIfMissing(lock, granted, Number(ttl))',
      "run.setIfMissing(lock, granted, 'for ever')",
    ],
  ),
  mutant(
    'a node takes the proposal though its counter is above it',
    [
      `${LUA}draw.ts`,
      "if #counter < #token or (#counter == #token and counter < token) then\n  redis.call('SET', counter_key",
      "if true then\n  redis.call('SET', counter_key",
    ],
    [
      'tokens.ts',
      'if (lift(run, counter, last, token)) return { token, nowUs }\n  if (last',
      "run.set(counter, token, 'for ever')\n  if (token !== '') return { token, nowUs }\n  if (last",
    ],
  ),
  mutant(
    'a node counts on and takes no proposal',
    [
      `${LUA}draw.ts`,
      "if #counter < #token or (#counter == #token and counter < token) then\n  redis.call('SET', counter_key",
      "if false then\n  redis.call('SET', counter_key",
    ],
    [
      'tokens.ts',
      'if (lift(run, counter, last, token)) return { token, nowUs }\n  if (last',
      "if (token === '') return { token, nowUs }\n  if (last",
    ],
  ),
  mutant(
    'a node takes whatever is proposed',
    [
      `${LUA}draw.ts`,
      'if math.abs(tonumber(proposed) - tonumber(now)) > 60000000 then',
      'if false then',
    ],
    [
      'tokens.ts',
      'const token = isNear ? proposed : nowUs',
      'const token = isNear ? proposed : proposed',
    ],
  ),
  mutant(
    'the recorded token is raised for whoever asks',
    [
      `${LUA}raise.ts`,
      "if not value or string.sub(value, 1, 27) ~= ARGV[1] then\n  return {'not-owner'}",
      "if not value then\n  return {'not-owner'}",
    ],
    [
      `${MODEL}granting.ts`,
      "if (!isOf(mark, value)) return ['not-owner']",
      "if (value === null) return ['not-owner']",
    ],
  ),
  mutant(
    'a raised token leaves the counter behind',
    [`${LUA}raise.ts`, "  redis.call('SET', KEYS[2], token)\n", ''],
    [`${MODEL}granting.ts`, "  lift(run, counterKey, counter ?? '', withoutZeros(raised))\n", ''],
  ),
  mutant(
    'an operator takes from another holder than was seen',
    [
      `${LUA}revoke.ts`,
      "elseif owner ~= ARGV[2] or owner == '----------------------' then",
      "elseif not owner or owner == '----------------------' then",
    ],
    [`${MODEL}granting.ts`, ': seen?.owner === wanted\n', ': seen !== null\n'],
  ),
  mutant(
    'an operator leaves no tombstone of the old holder',
    [
      `${LUA}revoke.ts`,
      "  redis.call('SET', tombstone, '', 'PX', math.max(2 * left, tonumber(ARGV[9])))\n",
      '',
    ],
    [`${MODEL}granting.ts`, "    run.set(tombstone, '', Math.max(2 * left, Number(life)))\n", ''],
  ),
]

const HOLDING: readonly NodeMutant[] = [
  mutant(
    'a node extends whosever it is',
    [`${LUA}extend.ts`, 'if value and string.sub(value, 1, 27) == ARGV[1] then', 'if value then'],
    [
      `${MODEL}holding.ts`,
      'if (isOf(mark, value)) {\n    if (run.pttl(lock) < ttlMs)',
      'if (value !== null) {\n    if (run.pttl(lock) < ttlMs)',
    ],
  ),
  mutant(
    'a node shortens',
    [`${LUA}extend.ts`, "if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then", 'if true then'],
    [`${MODEL}holding.ts`, 'if (run.pttl(lock) < ttlMs) run.expire', 'run.expire'],
  ),
  mutant(
    'a node brings back what is over',
    [
      `${LUA}extend.ts`,
      "  return {redis.call('EXISTS', KEYS[1]) == 0 and 'free' or 'held'}",
      "  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[5] .. ':{}', 'PX', ttl)\n  return {'ok'}",
    ],
    [
      `${MODEL}holding.ts`,
      "if (value === null) return [run.exists(lock) ? 'held' : 'free']",
      "if (value === null) {\n    run.set(lock, mark + token + ':{}', ttlMs)\n    return ['ok']\n  }",
    ],
  ),
  mutant(
    'a node that waits is repaired',
    [
      `${LUA}repair.ts`,
      'local set_id, run_id, ttl = ARGV[2], ARGV[3], ARGV[1]\n',
      "local set_id, run_id, ttl = ARGV[2], ARGV[3], ARGV[1]\nmarker = marker and string.gsub(marker, '^hfm1:w', 'hfm1:v')\n",
    ],
    [
      `${MODEL}holding.ts`,
      'const marker = run.read(markerKey)\n',
      "const marker = run.read(markerKey)?.replace(/^hfm1:w/, 'hfm1:v') ?? null\n",
    ],
  ),
  mutant(
    'a repair brings back an owner that was cancelled',
    [
      `${LUA}repair.ts`,
      "if found[2] then\n  return {'cancelled'}\nend\nlocal own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'\nif value then\n  return",
      "local own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'\nif value then\n  return",
    ],
    [`${MODEL}holding.ts`, "  if (run.read(tombstone) !== null) return ['cancelled']\n", ''],
  ),
  mutant(
    'a repair leaves the counter behind',
    [`${LUA}repair.ts`, "  redis.call('SET', KEYS[3], token)\n", ''],
    [`${MODEL}holding.ts`, "  lift(run, counterKey, counter ?? '', withoutZeros(token))\n", ''],
  ),
  mutant(
    'a repair looks like a grant',
    [`${LUA}repair.ts`, `since .. ',"f":1' .. ARGV[5]`, 'since .. ARGV[5]'],
    [`${MODEL}holding.ts`, '`,"f":1$', '`$'],
  ),
  mutant(
    'a cancel on a node leaves no tombstone',
    [`${LUA}cancel.ts`, "redis.call('SET', KEYS[3], '', 'PX', life)\n", ''],
    [`${MODEL}holding.ts`, "  run.set(tombstone, '', lifeMs)\n", ''],
  ),
  mutant(
    'a cancel on a node leaves a tombstone only where there was nothing to delete',
    [
      `${LUA}cancel.ts`,
      "redis.call('SET', KEYS[3], '', 'PX', life)\n",
      "if string.sub(redis.call('MGET', KEYS[1])[1] or '', 1, 27) ~= ARGV[1] then\n  redis.call('SET', KEYS[3], '', 'PX', life)\nend\n",
    ],
    [
      `${MODEL}holding.ts`,
      "  run.set(tombstone, '', lifeMs)\n",
      "  if (!isOf(mark, run.read(lock))) run.set(tombstone, '', lifeMs)\n",
    ],
  ),
  mutant(
    'a cancel deletes whosever it is',
    [
      `${LUA}cancel.ts`,
      'if not value or string.sub(value, 1, 27) ~= ARGV[1] then\n  return 0\nend\nif redis.call',
      'if not value then\n  return 0\nend\nif redis.call',
    ],
    [
      `${MODEL}holding.ts`,
      'if (!isOf(mark, run.read(lock))) return 0\n  if (run.del',
      'if (run.read(lock) === null) return 0\n  if (run.del',
    ],
  ),
  mutant(
    'a cancel takes a counter back',
    [
      `${LUA}cancel.ts`,
      'if counter and (#counter < #ARGV[3] or (#counter == #ARGV[3] and counter < ARGV[3])) then',
      'if counter then',
    ],
    [
      `${MODEL}holding.ts`,
      'if (counter !== null) lift(run, counterKey, counter, seen)',
      "if (counter !== null) run.set(counterKey, seen, 'for ever')",
    ],
  ),
  mutant(
    'a cancel makes a counter',
    [
      `${LUA}cancel.ts`,
      'if counter and (#counter <',
      "counter = counter or ''\nif counter and (#counter <",
    ],
    [
      `${MODEL}holding.ts`,
      'if (counter !== null) lift(run, counterKey, counter, seen)',
      "lift(run, counterKey, counter ?? '', seen)",
    ],
  ),
  mutant(
    'an older value takes the place of a newer one',
    [
      `${LUA}proclaim.ts`,
      'if #last > #ARGV[2] or (#last == #ARGV[2] and last > ARGV[2]) then',
      'if false then',
    ],
    [`${MODEL}holding.ts`, "  if (last !== p && isAtLeast(last, p)) return 'older'\n", ''],
  ),
]

export const REDLOCK_NODE_MUTANTS: readonly NodeMutant[] = [...VOTING, ...HOLDING, ...ADMISSION]
