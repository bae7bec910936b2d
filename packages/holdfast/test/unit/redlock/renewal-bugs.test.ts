/** Bugs of a renewal that the schedules of the simulation do not show, put into copies of the sources. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redlockBackendWith } from '../../../src/backends/redlock/redlock-backend.ts'
import { EXTEND } from '../../../src/backends/redlock/scripts/extend.ts'
import { REPAIR } from '../../../src/backends/redlock/scripts/repair.ts'
import type { Mutant } from '../../../src/sim/mutants.ts'
import { Mutants } from '../../../src/sim/mutate.ts'
import {
  loseEntry,
  openModel,
  type RedlockMaker,
  type RedlockModel,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000
const PATIENCE_MS = 300_000
const RENEWAL = 'backends/redlock/renewal.ts'

const bug = (name: string, ...changes: readonly (readonly [string, string, string])[]): Mutant => ({
  ...{ name, scenario: 'nominal', world: 'redlock3', seed: 1 },
  patches: changes.map(([file, text, replacement]) => ({ name, file, text, replacement })),
})

interface Case {
  readonly mutant: Mutant
  /** What is so on the sources as they are. */
  readonly holds: string
  shows(model: RedlockModel): Promise<unknown>
  readonly expected: unknown
}

const CASES: readonly Case[] = [
  {
    mutant: bug(
      'lateOkRevivesNode',
      [RENEWAL, "      if (sentAtMs <= share.barrierMs) return 'no'\n", ''],
      [
        'backends/redlock/held.ts',
        'if (sentAtMs > this.barrierMs && untilMs > this.untilMs)',
        'if (untilMs > this.untilMs)',
      ],
    ),
    holds: 'of two renewals, counts nothing that was sent before a node said no',
    async shows(model) {
      const { lines, backend, clock } = model
      const grant = await model.granted('k', 'o')
      await clock.advance(1000)
      loseEntry(model, 'k', 2)
      lines[1]?.holdReplies(EXTEND)
      const first = backend.renew(grant, TTL_MS)
      await clock.advance(1)
      loseEntry(model, 'k', 1)
      lines[1]?.open()
      lines[2]?.holdReplies(EXTEND)
      const second = backend.renew(grant, TTL_MS)
      await clock.advance(1)
      // To the first: "yes", from a node that has said "free" since.
      lines[1]?.letGo()
      lines[2]?.letGo()
      const both = await Promise.all([model.settled(first), model.settled(second)])
      return both.map(({ kind }) => kind)
    },
    expected: ['lost', 'lost'],
  },
  {
    mutant: bug('repairUnconfirmed', [
      RENEWAL,
      "if (this.#held.phase !== 'held' || this.count('yes') < this.voters.quorum) return",
      "if (this.#held.phase !== 'held') return",
    ]),
    holds: 'repairs no node that says so late, on one confirmation',
    async shows(model) {
      const { lines, backend, clock } = model
      const grant = await model.granted('k', 'o')
      await clock.advance(1)
      loseEntry(model, 'k', 2)
      lines[1]?.holdRequests(EXTEND)
      lines[2]?.holdReplies(EXTEND)
      await model.settled(backend.renew(grant, TTL_MS).catch(() => undefined))
      lines[2]?.letGo()
      await clock.advance(1)
      return lines[2]?.count(REPAIR)
    },
    expected: 0,
  },
  {
    mutant: bug('extendLateStartOnRedlock', [
      RENEWAL,
      "share.lives(sentAtMs, sentAtMs + this.#ttlMs)\n      return 'yes'",
      "share.lives(sentAtMs, this.voters.seams().nowMs() + this.#ttlMs)\n      return 'yes'",
    ]),
    holds: 'counts from before its request left, however late the answer is',
    async shows(model) {
      const { lines, backend, clock } = model
      const grant = await model.granted('k', 'o')
      await clock.advance(1000)
      const sentAtMs = clock.nowMs()
      loseEntry(model, 'k', 2)
      lines[2]?.holdRequests(REPAIR)
      for (const line of lines) line.holdReplies(EXTEND)
      const first = backend.renew(grant, TTL_MS)
      await clock.advance(20)
      lines[0]?.open()
      lines[1]?.holdRequests(EXTEND)
      lines[2]?.open()
      // Its own answers are those of one node; what the first has promised is all that stands.
      const second = backend.renew(grant, TTL_MS)
      await clock.advance(20)
      lines[0]?.letGo()
      lines[1]?.letRepliesGo()
      const renewed = await Promise.all([model.settled(first), model.settled(second)])
      return renewed.map((one) => (one.kind === 'renewed' ? one.sentAtMs - sentAtMs : one.kind))
    },
    expected: [0, 0],
  },
]

describe('a renewal', () => {
  let compiled: Mutants

  beforeAll(async () => {
    compiled = await Mutants.compile(CASES.map(({ mutant }) => mutant))
  }, PATIENCE_MS)

  afterAll(() => compiled.remove())

  it.each(CASES)('$holds', async ({ shows, expected }) => {
    expect(await shows(await openModel(3, { make: redlockBackendWith }))).toEqual(expected)
  })

  it.each(CASES)('with the bug $mutant.name does not', async ({ mutant, shows, expected }) => {
    const file = join(compiled.folderOf(mutant), '../backends/redlock/redlock-backend.js')
    const { redlockBackendWith: make } = (await import(pathToFileURL(file).href)) as {
      redlockBackendWith: RedlockMaker
    }
    expect(await shows(await openModel(3, { make }))).not.toEqual(expected)
  })
})
