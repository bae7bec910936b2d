/**
 * What an experiment is: data. Who does what (the workload: one program for each role and arm),
 * what goes wrong (the fault), what must be true (the claim), and who says so (the checker).
 *
 * The same module is loaded by the lab, which checks, and by every worker, which does the work. An
 * arm without protection is the control: if it does not fail, the fault did not happen and the
 * experiment says nothing.
 *
 * There are two kinds. One is made of rounds in lanes, in which one process pauses; it is what this
 * file describes. The other, for experiments that are no such rounds, is described in trial.ts.
 */
import type { Bar } from './bars.ts'
import type { DrawId, Entry, Outcome } from './history.ts'
import type { PostgresServer, ServerKind } from './servers/index.ts'

/** Where the servers of this run listen; or, where there are none, the files are. */
export interface Addresses {
  readonly redis?: { readonly host: string; readonly port: number }
  readonly postgres?: PostgresServer['connection']
  readonly sqlite?: { readonly folder: string }
}

/** One process pauses for longer than its lock lives. */
export interface PauseFault {
  readonly kind: 'pause'
  /** Whose process pauses; its program says when, by {@link Round.pause}. */
  readonly role: string
  readonly ttlMs: number
  readonly pauseMs: number
}

/** Where one arm works in one lane; nobody else uses it. */
export interface Place {
  readonly arm: string
  readonly lane: number
  /** Drawn from the seed: the lock name, and the row's id where there is a row. */
  readonly name: string
}

/** One performance of a round, as the programs of its roles see it. */
export interface Round extends DrawId {
  readonly role: string
  readonly place: string
  readonly fault: PauseFault
  /** A small delay, drawn from the seed, for whoever wants to begin a little later. */
  readonly jitterMs: number
  /** Tells the other roles that something is reached: they see it as `<role>:<mark>`. */
  mark(mark: string): void
  /** Resolves when another role, or the lab, has reached it; `A:pausing` is set by the pause. */
  until(mark: string): Promise<void>
  /** The fault. Comes back when it is over. */
  pause(): Promise<void>
  /** Does something and writes down when and with which outcome; gives the whole outcome back. */
  call<O extends Outcome>(op: string, act: () => Promise<O>): Promise<O>
  /** For what does not fit into one call: writes down an operation that began at `calledAtUs`. */
  note(op: string, calledAtUs: number, outcome: Outcome): void
}

/** What a worker, or the lab, has opened for a scenario. */
export interface Stores {
  close(): Promise<void>
}

export interface Arm<S extends Stores = Stores> {
  readonly name: string
  /** False: the control, which must fail in every round. */
  readonly protected: boolean
  /** It has protection and shows where that ends; `protected` is false then. */
  readonly notCovered?: true
  /** What must be true of every round, in one sentence. */
  readonly claim: string
  /** The program of one role, one round long. */
  run(round: Round, stores: S): Promise<void>
}

/** What the checker gets: never a word of the code under test, only what was done and what is there. */
export interface ArmRecord {
  readonly arm: Pick<Arm, 'name' | 'protected'>
  /** How many rounds there should be. */
  readonly rounds: number
  readonly fault: PauseFault
  readonly entries: readonly Entry[]
  /** What the scenario's `finalState` read from the stores, for each place of this arm. */
  readonly finals: readonly PlaceState[]
}

/** A store's own account of one place when all work was done. */
export interface PlaceState {
  readonly place: Place
  readonly state: unknown
}

export interface ArmFindings {
  /** Rounds that happened as planned; at most those that were wanted. */
  readonly rounds: number
  /** Those of them for which the arm's claim is true. */
  readonly roundsTrue: number
  readonly redrawn: number
  readonly metrics: Readonly<Record<string, number>>
  /** Further figures in milliseconds; they decide nothing. */
  readonly timings: Readonly<Record<string, number>>
  /** Figures with a bar; they decide nothing either. */
  readonly bars?: readonly Bar[]
  /** Why this history cannot be trusted: then nothing can be said. */
  readonly problems: readonly string[]
  /** What broke the claim outside of the counted rounds, in a protected arm. */
  readonly breaches: readonly string[]
}

export interface MetricTitle {
  readonly key: string
  readonly title: string
}

/** What both kinds of scenario tell of themselves. */
export interface ScenarioFace {
  readonly name: string
  readonly claim: string
  /** What must be on this machine; the run starts one of each for all. */
  readonly servers: readonly ServerKind[]
  readonly metrics: readonly MetricTitle[]
}

export interface Scenario<S extends Stores = Stores> extends ScenarioFace {
  readonly kind: 'rounds'
  /** One process each, in every lane. */
  readonly roles: readonly string[]
  readonly fault: PauseFault
  readonly arms: readonly Arm<S>[]
  /** Opens what the programs of a role, or `lab`, need, and makes sure that it answers. */
  open(addresses: Addresses, role: string): Promise<S>
  /** In the lab, once, before the first round. */
  prepare(stores: S, places: readonly Place[]): Promise<void>
  /** In the lab, before each performance: what `undo` will need if it has to be drawn again. */
  remember(stores: S, place: Place, id: DrawId): Promise<number>
  /** Puts the place back to what was remembered; the outcome goes into the history. */
  undo(stores: S, place: Place, remembered: number): Promise<Outcome>
  /** In the lab, when `after` is reached: looks into a store, then the mark `lab:looked` is set. */
  readonly look?: {
    readonly after: string
    act(stores: S, id: DrawId, place: string): Promise<Outcome>
  }
  /** In the lab, when all rounds are over. */
  finalState(stores: S, place: Place): Promise<unknown>
  /** True when the fault did what it is for: the others were done before it was over. */
  isAsPlanned(entries: readonly Entry[]): boolean
  check(record: ArmRecord): ArmFindings
}
