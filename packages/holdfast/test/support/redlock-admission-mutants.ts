/** Bugs of the scripts that let a Redlock's node vote; see node-mutants.ts. */
import { mutant, type NodeMutant } from './node-mutants.ts'

const LUA = 'backends/redlock/scripts/'
const MODEL = 'redlock/'

export const ADMISSION: readonly NodeMutant[] = [
  mutant(
    'a node is admitted by whoever asks',
    [
      `${LUA}admission.ts`,
      "string.sub(marker, 1, 30) ~= 'hfm1:w:' .. ARGV[1] .. ':'",
      "string.sub(marker, 1, 7) ~= 'hfm1:w:'",
    ],
    [
      `${MODEL}admission.ts`,
      'const isTheOneWaitedFor = marker.inc === inc && marker.runId',
      'const isTheOneWaitedFor = marker.runId',
    ],
  ),
  mutant(
    'a node is admitted that was restarted while it waited',
    [
      `${LUA}admission.ts`,
      " .. ARGV[1] .. ':' or string.sub(marker, 66, 105) ~= run_id then",
      " .. ARGV[1] .. ':' then",
    ],
    [
      `${MODEL}admission.ts`,
      'marker.inc === inc && marker.runId === (runId || run.runId)',
      'marker.inc === inc',
    ],
  ),
  mutant(
    'a node is admitted with the counters of others though its own are above them',
    [
      `${LUA}admission.ts`,
      'if #counter < #floor or (#counter == #floor and counter < floor) then',
      'if true then',
    ],
    [
      `${MODEL}admission.ts`,
      "lift(run, key, run.read(key) ?? '', floors[index] ?? '')",
      "run.set(key, floors[index] ?? '', 'for ever')",
    ],
  ),
  mutant(
    'a node is admitted with the counters that it was left with',
    [
      `${LUA}admission.ts`,
      'if #counter < #floor or (#counter == #floor and counter < floor) then',
      "if counter == '' then",
    ],
    [
      `${MODEL}admission.ts`,
      "lift(run, key, run.read(key) ?? '', floors[index] ?? '')",
      "if ((run.read(key) ?? '') === '') run.set(key, floors[index] ?? '', 'for ever')",
    ],
  ),
  mutant(
    'a node waits again for whoever asks',
    [`${LUA}admission.ts`, 'if ARGV[6] ~= marker or not is_known', 'if not is_known'],
    [`${MODEL}admission.ts`, 'if (!isAsSeen || !isOfSet ||', 'if (!isOfSet ||'],
  ),
  mutant(
    'a node of another set is taken over',
    [
      `${LUA}admission.ts`,
      'or not is_known or string.sub(marker, 31, 52) ~= ARGV[2] then',
      'or not is_known then',
    ],
    [`${MODEL}admission.ts`, ' || marker.setId !== setId) return found', ') return found'],
  ),
  mutant(
    'a node forgets how long its leases may last',
    [
      `${LUA}admission.ts`,
      '  longest = math.max(longest, tonumber(string.sub(marker, 57, 64)) or 0)\n',
      '',
    ],
    [`${MODEL}admission.ts`, '    longestMs = Math.max(longestMs, marker.longestMs)\n', ''],
  ),
  mutant(
    'a node that lost a counter is not made to wait',
    [
      `${LUA}admission.ts`,
      "if is_right and state == 'hfm1:v:' and #KEYS > 1 then",
      'if false then',
    ],
    ['redlock/admission.ts', 'run.runId && !lostCounter) return found', 'run.runId) return found'],
  ),
  mutant(
    'a closed node stays with its old set',
    [
      `${LUA}admission.ts`,
      "marker = 'hfm1:c' .. string.sub(marker, 7, 106)",
      "marker = 'hfm1:v' .. string.sub(marker, 7, 106)",
    ],
    [`${MODEL}admission.ts`, '`hfm1:c${found', '`hfm1:v${found'],
  ),
]
