/// <reference lib="esnext.disposable" preserve="true" />
/**
 * For tests: the suites that a backend or a guard must pass, a clock that moves only when told to,
 * a proxy that does to connections what networks do, and fakes for the tests of applications. Uses
 * no test runner of its own: pass yours in.
 */
export type { BackendHarness, OpenBackends, TestRunner } from './backend-harness.ts'
export { testBackend } from './backend-suite.ts'
export { testElection } from './election-suite.ts'
export { fakeLocks, loseLease } from './fake-locks.ts'
export { testGuard } from './guard-suite.ts'
export type {
  ColumnForm,
  GuardHarness,
  GuardRequest,
  OpenGuard,
  OwnTransaction,
} from './guard-suite-harness.ts'
export type { Direction, FaultProxy, Faults, ProxyConnection } from './proxy.ts'
export { startProxy } from './proxy.ts'
export type { VirtualClock, VirtualClockOptions } from './virtual-clock.ts'
export { createVirtualClock } from './virtual-clock.ts'
