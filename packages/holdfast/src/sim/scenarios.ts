/** What goes wrong in a schedule, and how often. Part of the specification: see `invariants.ts`. */

/** What a link does to messages; each a probability for one message. */
export interface Weather {
  readonly loss: number
  /** For one request: the client library sends it again when it had no answer. */
  readonly resend: number
  readonly slow: number
  /** How late a slow message is at most. Milliseconds. */
  readonly slowMsMax: number
}

export interface Scenario {
  /** To the lock store. */
  readonly weather: Weather
  /** To the data. A driver never sends a transaction again. */
  readonly dataWeather: Weather
  /** Whether clocks differ by less than the holder allows for, which mutual exclusion rests on. */
  readonly hasBoundedClocks: boolean
  /** Clocks differ by this share at most, half of it to either side. */
  readonly rateSpread: number
  /** A holder works between two writes for this share of the TTL at most. */
  readonly workShare: number
  /** Accidents, each with the mean time between two of them; Infinity: never. Milliseconds. */
  readonly everyMs: Readonly<{
    pause: number
    suspend: number
    death: number
    cut: number
    storePause: number
    storeStep: number
    wallStep: number
  }>
}

export const SCENARIOS: Readonly<Record<'nominal' | 'hunt', Scenario>> = {
  // Clocks are bounded and everything else goes wrong: every invariant must hold.
  nominal: {
    weather: { loss: 0.04, resend: 0.05, slow: 0.12, slowMsMax: 600 },
    dataWeather: { loss: 0.02, resend: 0, slow: 0.15, slowMsMax: 900 },
    hasBoundedClocks: true,
    rateSpread: 0.006,
    workShare: 0.8,
    everyMs: {
      pause: 500,
      suspend: 2500,
      death: 2500,
      cut: 1800,
      storePause: 1500,
      storeStep: Number.POSITIVE_INFINITY,
      wallStep: 2500,
    },
  },
  // The store's clock jumps and messages are late: holders overlap, and tokens and data must be right.
  hunt: {
    weather: { loss: 0.02, resend: 0.25, slow: 0.3, slowMsMax: 500 },
    dataWeather: { loss: 0.01, resend: 0, slow: 0.4, slowMsMax: 1200 },
    hasBoundedClocks: false,
    rateSpread: 0.006,
    workShare: 0.8,
    everyMs: {
      pause: 700,
      suspend: 3000,
      death: 2500,
      cut: 3000,
      storePause: 2000,
      storeStep: 250,
      wallStep: 500,
    },
  },
}

export type ScenarioName = keyof typeof SCENARIOS

export function isScenario(name: string): name is ScenarioName {
  return Object.hasOwn(SCENARIOS, name)
}
