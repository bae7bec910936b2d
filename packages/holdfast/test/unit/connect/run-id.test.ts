/**
 * The reader of a server's `run_id`, with answers that come when the test says so: real drivers drop
 * an answer with its connection, so that none of this can be brought about with them at will. With real
 * servers: faults/redlock-run-id.
 */
import { expect, it } from 'vitest'
import { RunIdReader } from '../../../src/connect/run-id.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

const FIRST = 'a'.repeat(40)
const SECOND = 'b'.repeat(40)

/** A connection whose questions are kept until the test answers them. */
function openReader() {
  const clock = createVirtualClock()
  const asked: { answer(runId: string): void; fail(error: Error): void }[] = []
  let lose = (): void => undefined
  const ask = (): Promise<unknown> =>
    new Promise((answer, fail) => {
      asked.push({ answer, fail })
    })
  const connection = {
    client: { eval: ask, evalsha: ask },
    onLost: (listener: () => void) => {
      lose = listener
    },
  }
  const reader = new RunIdReader(connection, seamsOf(clock))
  return { reader, clock, asked, lose: () => lose() }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

it('is known once the server has told it', async () => {
  const { reader, asked } = openReader()
  reader.onReady()
  expect(reader.runId()).toBe('')
  asked[0]?.answer(FIRST)
  await turn()
  expect(reader.runId()).toBe(FIRST)
})

// The accident: the answer of the server before is taken for that of the one that came after it.
it('does not take the answer of a connection that has ended', async () => {
  const { reader, asked, lose } = openReader()
  reader.onReady()
  lose()
  asked[0]?.answer(FIRST)
  await turn()
  expect(reader.runId()).toBe('')
  reader.onReady()
  await turn()
  expect(reader.runId()).toBe('')
  asked[1]?.answer(SECOND)
  await turn()
  expect(reader.runId()).toBe(SECOND)
})

it('forgets it as soon as the connection is lost, or another is ready', async () => {
  const { reader, asked, lose } = openReader()
  for (const forget of [lose, reader.onReady, () => reader.end()]) {
    reader.onReady()
    asked.at(-1)?.answer(FIRST)
    await turn()
    expect(reader.runId()).toBe(FIRST)
    forget()
    expect(reader.runId()).toBe('')
  }
})

it.each(['', 'no', `${FIRST}a`, FIRST.toUpperCase()])('does not take %j for one', async (told) => {
  const { reader, asked } = openReader()
  reader.onReady()
  asked[0]?.answer(told)
  await turn()
  expect(reader.runId()).toBe('')
})

it('asks again a second after a failure', async () => {
  const { reader, clock, asked } = openReader()
  reader.onReady()
  asked[0]?.fail(new Error('LOADING'))
  await turn()
  await clock.advance(999)
  expect(asked).toHaveLength(1)
  await clock.advance(1)
  expect(asked).toHaveLength(2)
  asked[1]?.answer(FIRST)
  await turn()
  expect(reader.runId()).toBe(FIRST)
})

// The accident: a connection that is gone is asked every second, for ever.
it.each(['lost', 'ended'])('asks no more when the connection is %s', async (how) => {
  const { reader, clock, asked, lose } = openReader()
  const leave = how === 'lost' ? lose : () => reader.end()
  reader.onReady()
  asked[0]?.fail(new Error('LOADING'))
  await turn()
  leave()
  await clock.advance(60_000)
  expect(asked).toHaveLength(1)
  reader.onReady()
  leave()
  asked[1]?.fail(new Error('LOADING'))
  await turn()
  await clock.advance(60_000)
  expect(asked).toHaveLength(2)
})
