import { OutcomeUnknownError } from 'holdfast'

/**
 * What a store that did not answer in time comes to. With a TTL of 300 ms that happens on a busy
 * machine, and says nothing about locks: the program asks again, or the round is drawn again.
 * Every other error, a store that cannot be reached first of all, goes on and ends the scenario.
 */
export function unanswered(error: unknown): 'unanswered' {
  if (error instanceof OutcomeUnknownError) return 'unanswered'
  throw error
}
