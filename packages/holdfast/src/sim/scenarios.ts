/**
 * What goes wrong in a schedule, how often, and what must hold all the same. Part of the
 * specification: see `invariants.ts`. The names are stable: seeds are quoted with them.
 */
import { Random } from './random.ts'

/** What a link does to messages; each a probability for one message. */
export interface Weather {
  readonly loss: number
  /** For one request: the client library sends it again when it had no answer. */
  readonly resend: number
  readonly slow: number
  /** How late a slow message is at most. Milliseconds. */
  readonly slowMsMax: number
}

/** The lock store of a schedule. */
export type WorldName = 'memory' | 'redis' | 'redlock3' | 'redlock5'

/** Milliseconds, from and to. */
export type Span = readonly [number, number]

export interface Accidents {
  readonly pause: number
  readonly suspend: number
  readonly death: number
  readonly cut: number
  readonly wallStep: number
  /** The lock store or the data stand still. */
  readonly storePause: number
  /** A lock node's clock jumps. */
  readonly storeStep: number
  /** A lock node's clock gets another rate. */
  readonly storeRate: number
  /** A lock node stops, and comes back as another process with its data. */
  readonly storeStop: number
  /** A lock node loses its data, by a flush or by coming back empty. */
  readonly storeLoss: number
}

export interface Scenario {
  /** One of them, by the seed. */
  readonly worlds: readonly WorldName[]
  /** To the lock store. */
  readonly weather: Weather
  /** To the data. A driver never sends a transaction again. */
  readonly dataWeather: Weather
  /** I1 is asserted: clocks differ by less than the holder allows for, and none jumps forward. */
  readonly hasBoundedClocks: boolean
  /** I5 is asserted. */
  readonly isCalm: boolean
  /** The second half of I7 is asserted: a cancel always arrives, and soon. */
  readonly isLossless: boolean
  /** Clocks differ by this share at most, half of it to either side. */
  readonly rateSpread: number
  /** A holder works between two writes for this share of the TTL at most. */
  readonly workShare: number
  /** False: nobody renews, and leases end under their holders' work. */
  readonly renews: boolean
  /** How long an inhabitant is paused. */
  readonly pauseMs: Span
  readonly storeStepMs: Span
  readonly wallStepMs: Span
  /** So often it is all lock nodes that lose their data, when one does. */
  readonly allLostShare: number
  /** The mean time between two accidents of each kind; Infinity: never. Milliseconds. */
  readonly everyMs: Accidents
}

export const TTL_MS = 400

const NEVER = Number.POSITIVE_INFINITY

const NO_ACCIDENTS: Accidents = {
  pause: NEVER,
  suspend: NEVER,
  death: NEVER,
  cut: NEVER,
  wallStep: NEVER,
  storePause: NEVER,
  storeStep: NEVER,
  storeRate: NEVER,
  storeStop: NEVER,
  storeLoss: NEVER,
}

const USUAL: Scenario = {
  worlds: ['memory', 'redis', 'redlock3', 'redlock5'],
  weather: { loss: 0.04, resend: 0.05, slow: 0.12, slowMsMax: 600 },
  dataWeather: { loss: 0.02, resend: 0, slow: 0.15, slowMsMax: 900 },
  hasBoundedClocks: true,
  isCalm: false,
  isLossless: false,
  rateSpread: 0.006,
  workShare: 0.8,
  renews: true,
  pauseMs: [0, 2.2 * TTL_MS],
  storeStepMs: [0, 0],
  wallStepMs: [-2000, 2000],
  allLostShare: 0,
  everyMs: NO_ACCIDENTS,
}

/** A driver of the data that does what it is asked to, soon. */
const FAIR: Weather = { loss: 0, resend: 0, slow: 0.02, slowMsMax: 40 }

export type ScenarioName =
  | 'nominal'
  | 'clocks'
  | 'hunt'
  | 'amnesia'
  | 'blackout'
  | 'lossless'
  | 'latewrite'
  | 'calm'
  | 'wallback'

export const SCENARIOS: Readonly<Record<ScenarioName, Scenario>> = {
  // Clocks are bounded and everything else goes wrong: every invariant must hold.
  nominal: {
    ...USUAL,
    workShare: 1.6,
    everyMs: {
      ...NO_ACCIDENTS,
      pause: 500,
      suspend: 2500,
      death: 2500,
      cut: 1800,
      wallStep: 2500,
      storePause: 1500,
      storeStop: 1800,
    },
  },
  // Clocks run fast, slow and in jumps: holders overlap, and tokens and data must be right.
  clocks: {
    ...USUAL,
    weather: { loss: 0.04, resend: 0.05, slow: 0.08, slowMsMax: 400 },
    hasBoundedClocks: false,
    storeStepMs: [-400, 1200],
    everyMs: {
      ...NO_ACCIDENTS,
      pause: 600,
      suspend: 1200,
      death: 3000,
      wallStep: 800,
      storePause: 2500,
      storeStep: 700,
      storeRate: 700,
      storeStop: 2500,
    },
  },
  // A store's clock jumps all the time and messages are late: attempts stretch over other leases.
  hunt: {
    ...USUAL,
    weather: { loss: 0.02, resend: 0.25, slow: 0.3, slowMsMax: 500 },
    dataWeather: { loss: 0.01, resend: 0, slow: 0.4, slowMsMax: 1200 },
    hasBoundedClocks: false,
    storeStepMs: [-1200, 1200],
    everyMs: {
      ...NO_ACCIDENTS,
      pause: 700,
      suspend: 3000,
      death: 2500,
      cut: 3000,
      wallStep: 500,
      storePause: 2000,
      storeStep: 250,
      storeStop: 2500,
    },
  },
  // Lock nodes lose their data: whoever waits for what they forgot keeps exclusion and order.
  amnesia: {
    ...USUAL,
    worlds: ['redis', 'redlock3', 'redlock5'],
    weather: { loss: 0.03, resend: 0.04, slow: 0.08, slowMsMax: 300 },
    everyMs: {
      ...NO_ACCIDENTS,
      pause: 600,
      death: 3000,
      cut: 3000,
      storePause: 2500,
      storeStop: 2500,
      storeLoss: 1200,
    },
  },
  // All nodes lose their data at once, under leases whose holders ask for nothing and are not told.
  blackout: {
    ...USUAL,
    worlds: ['redlock3', 'redlock5'],
    weather: { loss: 0.03, resend: 0.04, slow: 0.08, slowMsMax: 300 },
    workShare: 1.2,
    renews: false,
    allLostShare: 0.7,
    everyMs: { ...NO_ACCIDENTS, pause: 600, storeLoss: 800 },
  },
  // Nothing is lost and everybody lives, but much is sent again or late: cancelled is cancelled.
  lossless: {
    ...USUAL,
    worlds: ['redis', 'redlock3', 'redlock5'],
    weather: { loss: 0, resend: 0.25, slow: 0.4, slowMsMax: 60 },
    dataWeather: FAIR,
    isLossless: true,
    pauseMs: [0, 15],
    everyMs: { ...NO_ACCIDENTS, pause: 300 },
  },
  // Writes to the data are late, and leases run out under them.
  latewrite: {
    ...USUAL,
    weather: { loss: 0, resend: 0.02, slow: 0.05, slowMsMax: 100 },
    dataWeather: { loss: 0, resend: 0, slow: 0.5, slowMsMax: 700 },
    workShare: 1.2,
    renews: false,
    everyMs: { ...NO_ACCIDENTS, pause: 700, suspend: 2500 },
  },
  // Little goes wrong, so whoever waits must be served.
  calm: {
    ...USUAL,
    weather: { loss: 0, resend: 0, slow: 0.02, slowMsMax: 100 },
    dataWeather: FAIR,
    isCalm: true,
    workShare: 0.4,
    pauseMs: [0, TTL_MS],
    everyMs: { ...NO_ACCIDENTS, pause: 1500, death: 1500 },
  },
  // Wall clocks of clients and of lock nodes go back; no other clock lies.
  wallback: {
    ...USUAL,
    weather: { loss: 0.02, resend: 0.03, slow: 0.08, slowMsMax: 300 },
    storeStepMs: [-1500, 0],
    wallStepMs: [-2000, 0],
    everyMs: {
      ...NO_ACCIDENTS,
      pause: 500,
      death: 3000,
      wallStep: 250,
      storeStep: 1200,
      storeStop: 3000,
    },
  },
}

export const SCENARIO_NAMES: readonly ScenarioName[] = Object.keys(SCENARIOS) as ScenarioName[]

export function isScenario(name: string): name is ScenarioName {
  return Object.hasOwn(SCENARIOS, name)
}

/** Scenario and seed are the whole schedule, its world included. */
export function worldOf(name: ScenarioName, seed: number): WorldName {
  return new Random(seed).pick(SCENARIOS[name].worlds)
}
