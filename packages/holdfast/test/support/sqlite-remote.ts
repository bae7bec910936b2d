/** A backend in a process of its own, asked by messages: for what happens to that process's files. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireRequest, Backend, Grant } from '../../src/core/backend.ts'
import type { Child, Children } from './child.ts'
import { type ChildHead, childHead } from './sqlite-child.ts'

/** What came of one call: its value, or of its error what callers act on. */
export type Outcome =
  | { readonly value: unknown }
  | { readonly code: string; readonly why?: string; readonly message: string }

export interface Remote {
  readonly child: Child
  call(method: keyof Backend, ...given: readonly unknown[]): Promise<Outcome>
  /** `held` and errors in one word, for comparing: `granted`, `held`, `BACKEND_UNAVAILABLE down`. */
  acquire(request: AcquireRequest): Promise<{ readonly word: string; readonly grant: Grant | null }>
}

const ANSWER_MS_MAX = 30_000
const POLL_MS = 2

const SERVING = `
const revive = (key, value) =>
  typeof value === 'string' && /^[0-9]+n$/.test(value) ? BigInt(value.slice(0, -1)) : value
const plain = (key, value) => typeof value === 'bigint' ? value + 'n' : value
process.on('message', async (text) => {
  const { id, method, given } = JSON.parse(text, revive)
  for (const one of given) if (one.lockName && one.ttlMs) one.onLost = () => {}
  let outcome
  try {
    outcome = { value: await backend[method](...given) ?? null }
  } catch (error) {
    outcome = { code: error.code ?? error.name, why: error.why, message: error.message }
  }
  process.send(JSON.stringify({ id, outcome }, plain))
})
process.send('ready')
`

/** @param before Statements that run between the imports and the first message. */
export async function openRemote(
  children: Children,
  head: ChildHead,
  env: Readonly<Record<string, string>> = {},
  before = '',
): Promise<Remote> {
  const child = children.run(`${childHead(head)}${before}${SERVING}`, [], env)
  await child.sent('ready')
  let last = 0
  async function call(method: keyof Backend, ...given: readonly unknown[]): Promise<Outcome> {
    const id = ++last
    child.send(
      JSON.stringify({ id, method, given }, (_key, value) =>
        typeof value === 'bigint' ? `${value}n` : value,
      ),
    )
    const untilMs = performance.now() + ANSWER_MS_MAX
    while (performance.now() < untilMs) {
      const answer = child.messages.find((one) => String(one).startsWith(`{"id":${id},`))
      if (answer !== undefined) {
        return (JSON.parse(String(answer), revive) as { outcome: Outcome }).outcome
      }
      await sleep(POLL_MS)
    }
    throw new Error(`no answer to ${method} within ${ANSWER_MS_MAX} ms`)
  }
  return {
    child,
    call,
    async acquire(request) {
      const outcome = await call('tryAcquire', request)
      if (!('value' in outcome)) return { word: wordOf(outcome), grant: null }
      const { kind, grant = null } = outcome.value as { kind: string; grant?: Grant }
      return { word: kind, grant }
    },
  }
}

export function wordOf(outcome: Outcome): string {
  if ('value' in outcome) return 'value'
  return outcome.why === undefined ? outcome.code : `${outcome.code} ${outcome.why}`
}

function revive(_key: string, value: unknown): unknown {
  return typeof value === 'string' && /^[0-9]+n$/.test(value) ? BigInt(value.slice(0, -1)) : value
}
