/**
 * The model's side of a step, and whether a server may have done the same.
 *
 * The one thing that the model is told is the time: that of the grant, where the server wrote one that
 * lies between TIME before and TIME after, else TIME before; where a key ended in between, also TIME
 * after. Replies, keys, types, values and messages must be equal; a TTL within 5 ms and what the
 * transaction took; that of a key which the step does not touch, exactly.
 */
import { isDeepStrictEqual } from 'node:util'
import { HAND_OVER } from '../../../src/backends/redis/scripts/hand-over.ts'
import { LIST } from '../../../src/backends/redis/scripts/look.ts'
import { STATE } from '../../../src/backends/redlock/scripts/admission.ts'
import { LIST as LIST_OF_NODE } from '../../../src/backends/redlock/scripts/look.ts'
import type { RedisScript } from '../../../src/clients/redis.ts'
import { type Bytes, toBytes, toText } from '../../../src/sim/node/bytes.ts'
import { type Entry, KeySpace } from '../../../src/sim/node/keyspace.ts'
import { decoded } from '../../../src/sim/node/node.ts'
import { ReplyError, ScriptRun } from '../../../src/sim/node/script-run.ts'
import type { ScriptModel } from '../../../src/sim/node/scripts/model.ts'
import type { Seen, SeenKey } from './server.ts'
import type { Step } from './steps.ts'

const SLACK_MS = 5
/** Of the scripts that list. */
const FIELDS_PER_LOCK: ReadonlyMap<RedisScript, number> = new Map([
  [LIST, 5],
  [LIST_OF_NODE, 6],
])
/** In the reply of STATE, whose fifth part is the clock. */
const CLOCK_AT = 4

/** What goes for the server while a step is done, and what it is compared with. */
export interface Condition {
  /** By the SHA-1 of the script as it is shipped. */
  readonly models: ReadonlyMap<string, ScriptModel>
  readonly runId: string
  readonly isReadOnly: boolean
  readonly isOutOfMemory: boolean
  readonly replicaCount: number
}

interface Done {
  readonly reply: unknown
  readonly published: readonly string[]
}

/** @returns What is different, and then `keys` are as they were; null, and they are the server's. */
export function judge(keys: KeySpace, step: Step, seen: Seen, condition: Condition): string | null {
  const before = keys.all(Number.NEGATIVE_INFINITY)
  let complaint = ''
  for (const nowUs of timesOf(before, seen)) {
    const tried = filled(before)
    const done = perform(tried, step, nowUs, condition)
    const found = compare(before, tried, done, step, seen)
    if (found === null) {
      adopt(keys, tried, seen)
      return null
    }
    complaint ||= found
  }
  return complaint
}

function timesOf(before: readonly [Bytes, Entry][], { fromUs, toUs, keys }: Seen): number[] {
  const values = [...keys.values()].map(({ value }) => value)
  const written = values.map((value) => /"s":(\d{16})/.exec(value)?.[1] ?? '')
  // A counter too, where a token was drawn in vain.
  const ofGrant = [...written, ...values].map(Number).find((us) => us >= fromUs && us <= toUs)
  const times = [ofGrant ?? fromUs]
  const ends = before.map(([, { expiresAtMs }]) => expiresAtMs ?? 0)
  const endsBetween = ends.some((ms) => ms * 1000 >= fromUs - 2000 && ms * 1000 <= toUs + 1000)
  if (endsBetween) times.push(fromUs, toUs + 1000)
  return times
}

function filled(entries: readonly [Bytes, Entry][]): KeySpace {
  const keys = new KeySpace()
  for (const [key, entry] of entries) keys.put(key, entry)
  return keys
}

function perform(keys: KeySpace, step: Step, nowUs: number, condition: Condition): Done {
  if (step.kind !== 'script') {
    performOther(keys, step, Math.floor(nowUs / 1000))
    return { reply: undefined, published: [] }
  }
  const published: string[] = []
  const publish = (channel: Bytes): void => {
    published.push(toText(channel))
  }
  const run = new ScriptRun({ ...condition, keys, nowUs, publish })
  const model = condition.models.get(step.script.sha1)
  if (model === undefined) throw new Error(`${step.script.name} has no model`)
  try {
    const reply = decoded(model(run, step.keys.map(toBytes), step.args.map(toBytes)))
    return { reply, published }
  } catch (error) {
    if (!(error instanceof ReplyError)) throw error
    return { reply: error, published }
  }
}

function performOther(
  keys: KeySpace,
  step: Exclude<Step, { kind: 'script' }>,
  nowMs: number,
): void {
  const key = toBytes(step.key)
  if (step.kind === 'remove') keys.remove(key, nowMs)
  if (step.kind === 'persist') {
    const entry = keys.find(key, nowMs)
    if (entry !== null) keys.put(key, { ...entry, expiresAtMs: null })
  }
  if (step.kind !== 'put') return
  const { value, lifeMs } = step
  const expiresAtMs = lifeMs === null ? null : nowMs + lifeMs
  if (value === null) keys.put(key, { type: 'list', value: '', expiresAtMs: null })
  else keys.put(key, { type: 'string', value: Buffer.from(value).toString('latin1'), expiresAtMs })
}

function compare(
  before: readonly [Bytes, Entry][],
  after: KeySpace,
  done: Done,
  step: Step,
  seen: Seen,
): string | null {
  const slackMs = SLACK_MS + Math.ceil((2 * (seen.toUs - seen.fromUs)) / 1000)
  if (step.kind === 'script') {
    const [ours, theirs] = [done.reply, seen.reply].map((reply) => normal(step, reply))
    if (step.script === STATE) setClock(ours, theirs, seen)
    if (!isSameReply(step, ours, theirs, slackMs)) {
      return `the model answers ${textOf(ours)}, the server ${textOf(theirs)}`
    }
  }
  if (!isDeepStrictEqual(done.published, seen.published)) {
    return `the model publishes [${done.published}], the server [${seen.published}]`
  }
  return compareKeys(new Map(before), after, seen, slackMs)
}

/** The model is told the time before; the server read its clock a little later. */
function setClock(ours: unknown, theirs: unknown, { fromUs, toUs }: Seen): void {
  if (!Array.isArray(ours) || !Array.isArray(theirs)) return
  const us = Number(theirs[CLOCK_AT])
  if (us >= fromUs && us <= toUs) ours[CLOCK_AT] = theirs[CLOCK_AT]
}

function compareKeys(
  before: ReadonlyMap<Bytes, Entry>,
  after: KeySpace,
  { keys, toUs }: Seen,
  slackMs: number,
): string | null {
  const ours = new Map(after.all(Number.NEGATIVE_INFINITY))
  for (const [key, theirs] of keys) {
    const bytes = toBytes(key)
    const own = ours.get(bytes)
    ours.delete(bytes)
    const isUntouched = own !== undefined && own === before.get(bytes)
    if (!isSameEntry(own, theirs, isUntouched ? 0 : slackMs)) {
      return `at "${key}" the model has ${textOf(own)}, the server ${textOf(theirs)}`
    }
  }
  for (const [key, { expiresAtMs }] of ours) {
    const mayBeOver = expiresAtMs !== null && expiresAtMs - slackMs <= toUs / 1000
    if (!mayBeOver) return `the server has nothing at "${toText(key)}", the model has`
  }
  return null
}

function isSameEntry(own: Entry | undefined, theirs: SeenKey, slackMs: number): boolean {
  if (own === undefined || own.type !== theirs.type) return false
  if (toText(own.value) !== theirs.value) return false
  if (own.expiresAtMs === null || theirs.expiresAtMs === -1) {
    return own.expiresAtMs === null && theirs.expiresAtMs === -1
  }
  return Math.abs(own.expiresAtMs - theirs.expiresAtMs) <= slackMs
}

/** From here on both count from the same times, so that no small difference grows. */
function adopt(keys: KeySpace, tried: KeySpace, seen: Seen): void {
  keys.clear()
  for (const [key, entry] of tried.all(Number.NEGATIVE_INFINITY)) {
    const theirs = seen.keys.get(toText(key))
    if (theirs === undefined) continue
    const expiresAtMs = theirs.expiresAtMs === -1 ? null : theirs.expiresAtMs
    keys.put(key, { ...entry, expiresAtMs })
  }
}

type ScriptStep = Extract<Step, { kind: 'script' }>

/** Of an error the words before Redis' own about script and line; of a listing the order does not count. */
function normal({ script }: ScriptStep, reply: unknown): unknown {
  if (reply instanceof Error) return { error: reply.message.split(' script: ')[0] }
  const fields = FIELDS_PER_LOCK.get(script)
  if (!Array.isArray(reply) || fields === undefined) return reply
  const rows: unknown[][] = []
  for (let at = 1; at < reply.length; at += fields) rows.push(reply.slice(at, at + fields))
  rows.sort(([one], [other]) => (String(one) < String(other) ? -1 : 1))
  return [reply[0], ...rows.flat()]
}

function isSameReply(step: ScriptStep, ours: unknown, theirs: unknown, slackMs: number): boolean {
  if (!Array.isArray(ours) || !Array.isArray(theirs)) return isDeepStrictEqual(ours, theirs)
  if (ours.length !== theirs.length) return false
  return ours.every((part, at) => {
    const other: unknown = theirs[at]
    if (!isDuration(step, ours, at)) return part === other
    if (typeof part !== 'number' || typeof other !== 'number') return false
    return part < 0 === other < 0 && Math.abs(part - other) <= slackMs
  })
}

/** Where a reply says how many milliseconds are left. */
function isDuration({ script }: ScriptStep, reply: readonly unknown[], at: number): boolean {
  const fields = FIELDS_PER_LOCK.get(script)
  if (fields !== undefined) return at % fields === 3
  const [kind] = reply
  if (kind === 'again') return at === (script === HAND_OVER ? 3 : 2)
  if (kind === 'revoked') return at === 2
  return at === 1 && ['held', 'lock', 'rest', 'foreign'].includes(String(kind))
}

function textOf(what: unknown): string {
  return JSON.stringify(what) ?? 'nothing'
}
