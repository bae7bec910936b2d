import { BackendUnavailableError, OutcomeUnknownError } from 'holdfast'

/**
 * What a store that did not answer in time comes to. On a busy machine, with a TTL of 300 ms, that
 * happens, and says nothing about locks: the program asks again, or the round is drawn again.
 * Every other error goes on and ends the scenario.
 */
export function unanswered(error: unknown): 'unanswered' {
  if (error instanceof OutcomeUnknownError || error instanceof BackendUnavailableError) {
    return 'unanswered'
  }
  throw error
}
