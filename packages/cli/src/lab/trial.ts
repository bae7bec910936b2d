/**
 * The second kind of scenario, for experiments that are no rounds in lanes: a trial. An arm is run
 * as a whole. It gets servers of its own, which it may stop, kill or restart empty, proxies before
 * them, worker processes that do what it tells them, and a history; how long it may take is bounded,
 * and whatever it started is ended with it, however it ends.
 *
 * The same module is loaded by the lab, which runs the arms and checks, and by every worker, which
 * runs the programs. Verdicts mean what they mean in the other kind.
 */
import type { FaultProxy } from 'holdfast/testkit'
import type { Entry, Outcome } from './history.ts'
import type { Addresses, ArmFindings, ScenarioFace } from './scenario.ts'
import type {
  EtcdCluster,
  EtcdClusterOptions,
  EtcdOptions,
  EtcdServer,
  PostgresOptions,
  PostgresServer,
  RedisOptions,
  RedisServer,
  ServerKind,
} from './servers/index.ts'

/** How much an arm has to do. */
export interface TrialPlan {
  /** How often its claim is put to the test. */
  readonly rounds: number
  /** How large each of these is, where they have a size; 1 where they have none. */
  readonly size: number
}

export interface TrialArm {
  readonly name: string
  /** False: the claim is that it goes wrong, in every round. */
  readonly protected: boolean
  /** An arm with protection that shows where the protection ends; `protected` is false then. */
  readonly notCovered?: true
  /** What must be true of every round, in one sentence. */
  readonly claim: string
  /** What it starts beside the servers of its scenario; where one is missing, it is skipped. */
  readonly servers?: readonly ServerKind[]
  /** In one line what else this machine, or a run of this size, lacks for it: it is skipped. Null: nothing. */
  obstacle?(plan: TrialPlan): Promise<string | null>
  /**
   * @returns what the stores themselves say in the end, for the checker. What the arm throws ends
   *   the scenario.
   */
  run(trial: Trial): Promise<unknown>
}

/** One arm while it is run, seen from the lab. */
export interface Trial extends TrialPlan {
  readonly arm: string
  /** Where the servers that the run started for all scenarios listen. */
  readonly addresses: Addresses
  /** Uniform in [0, 1), from the seed: the same for the same scenario, arm and text. */
  draw(what: string): number
  /** Uniform in [0, 1), from the seed: the same in all arms of the scenario. */
  drawForAll(what: string): number
  /** For names of locks and rows: no other arm, scenario or seed has it. */
  readonly place: string
  /** A server of its own, ended with the arm. */
  startRedis(options?: RedisOptions): Promise<RedisServer>
  startPostgres(options?: PostgresOptions): Promise<PostgresServer>
  /** Of arms that name etcd among their servers. */
  startEtcd(options?: EtcdOptions): Promise<EtcdServer>
  /** Three members, of which one leads. */
  startEtcdCluster(options?: EtcdClusterOptions): Promise<EtcdCluster>
  /** A proxy in front of a port of 127.0.0.1, closed with the arm. */
  startProxy(port: number): Promise<FaultProxy>
  /** A process of its own, ended with the arm. */
  startWorker(role: string): Promise<TrialWorker>
  /** Runs when the arm is over, before its servers end: for connections that the lab opened. */
  onEnd(close: () => Promise<void>): void
  /** Does something and writes down when and with which outcome; gives the whole outcome back. */
  call<O extends Outcome>(round: number, op: string, act: () => Promise<O>): Promise<O>
  note(round: number, op: string, calledAtUs: number, outcome: Outcome): void
  /** For the progress bar. */
  progress(roundsDone: number): void
}

/** A worker process of a trial. */
export interface TrialWorker {
  readonly role: string
  readonly pid: number
  /**
   * Runs one of the scenario's programs there; one at a time.
   *
   * @returns what the program returns. Rejects when it throws, or when the process dies.
   */
  run(program: string, round: number, input: unknown): Promise<unknown>
  /** Tells the program that something is reached. */
  mark(mark: string): void
  /** Resolves when the program has reached it. Rejects after a minute, or when the process dies. */
  until(mark: string): Promise<void>
  /** SIGSTOP; resolves when it stands still. */
  freeze(): Promise<void>
  /** SIGCONT. */
  thaw(): void
  /** SIGKILL; what it was running rejects. Calling twice is safe. */
  kill(): Promise<void>
}

/** One run of a program, seen from the worker. */
export interface Job {
  readonly arm: string
  readonly round: number
  readonly role: string
  /** What the arm passed; plain data. */
  readonly input: unknown
  call<O extends Outcome>(op: string, act: () => Promise<O>): Promise<O>
  /** @param round Another than the job's own, in a job that does several at once. */
  note(op: string, calledAtUs: number, outcome: Outcome, round?: number): void
  /** Resolves when it is on its way, with everything that was written down before. */
  mark(mark: string): Promise<void>
  /** Resolves when the lab has said so. Rejects after a minute. */
  until(mark: string): Promise<void>
  /** True when the lab has said so already. */
  hasReached(mark: string): boolean
}

/** What a worker does; it opens what it needs and closes it again. */
export type Program = (job: Job) => Promise<unknown>

/** What the checker gets: never a word of the code under test. */
export interface TrialRecord extends TrialPlan {
  readonly arm: Pick<TrialArm, 'name' | 'protected'>
  readonly entries: readonly Entry[]
  /** What the arm returned; undefined when it came to no end. */
  readonly finals: unknown
}

export interface TrialScenario extends ScenarioFace {
  readonly kind: 'trials'
  readonly arms: readonly TrialArm[]
  /** How many arms may run at the same time: 1 where they are compared in speed. */
  readonly armsAtOnce: number
  /** An arm that takes longer has failed. */
  readonly armMsMax: number
  /** What `--rounds` means here. */
  plan(rounds: number): TrialPlan
  readonly programs: Readonly<Record<string, Program>>
  check(record: TrialRecord): ArmFindings
}
