/// <reference lib="esnext.disposable" preserve="true" />
/** Elections, on every backend: `for await (const term of createElection(locks, name).campaign())`. */
export type {
  Election,
  ElectionOptions,
  Leadership,
  Term,
} from './recipes/election/contract.ts'
export { createElection } from './recipes/election/election.ts'
