/**
 * What the checker expects of each arm, written down apart from those who play it.
 */
export interface Expected {
  readonly shows: 'all is well' | 'two holders' | 'wrong tokens' | 'both'
  /** How many nodes something happens to. */
  readonly struck: number
  /** A's lock on those nodes, when it has happened. */
  readonly lock: 'gone' | 'there'
  /** Their clocks, against the machine's. */
  readonly aheadSeconds: number
  /** They are kept from voting for a TTL, and vote again. */
  readonly isReadmitted: boolean
}

const HOUR_SECONDS = 3_600
const ONE_LOST = { struck: 1, lock: 'gone', aheadSeconds: 0 } as const
const OURS = { ...ONE_LOST, shows: 'all is well', isReadmitted: true } as const
const BY_HAND = { ...ONE_LOST, shows: 'both', isReadmitted: false } as const
const CLOCK = { struck: 1, isReadmitted: false } as const

const BY_NAME: Readonly<Record<string, Expected>> = {
  'by hand on 3, empty restart': BY_HAND,
  'redlock of 3, empty restart': OURS,
  'by hand on 3, FLUSHALL': BY_HAND,
  'redlock of 3, FLUSHALL': OURS,
  'by hand on 3, unsynced replica': BY_HAND,
  'redlock of 3, unsynced replica': OURS,
  'redlock of 3, empty restart and clock back': { ...OURS, aheadSeconds: -HOUR_SECONDS },
  'redlock of 3, all restart empty': { ...OURS, struck: 3 },
  'redlock of 3, all restart empty and clocks back': {
    ...{ shows: 'wrong tokens', struck: 3, lock: 'gone' },
    ...{ aheadSeconds: -HOUR_SECONDS, isReadmitted: true },
  },
  'redlock of 3, clock an hour ahead': {
    ...CLOCK,
    ...{ shows: 'all is well', lock: 'gone', aheadSeconds: HOUR_SECONDS },
  },
  'redlock of 3, clock an hour back': {
    ...CLOCK,
    ...{ shows: 'all is well', lock: 'there', aheadSeconds: -HOUR_SECONDS },
  },
  'redlock of 3, held on two, clock an hour ahead': {
    ...CLOCK,
    ...{ shows: 'two holders', lock: 'gone', aheadSeconds: HOUR_SECONDS },
  },
}

export function isQuorumArm(name: string): boolean {
  return name in BY_NAME
}

export function expectedOf(name: string): Expected {
  const expected = BY_NAME[name]
  if (expected === undefined) throw new Error(`no such arm: ${name}`)
  return expected
}
