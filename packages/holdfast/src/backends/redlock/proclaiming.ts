/** What a quorum of nodes is told without a lease changing hands: a value, a larger counter. */
import { InvalidArgumentError, OutcomeUnknownError } from '../../core/errors.ts'
import { textsOf } from '../../wire/replies.ts'
import { ownerMark, proclaimed } from '../../wire/value.ts'
import type { Held } from './held.ts'
import { NodeRequest } from './node-request.ts'
import { PROCLAIM } from './scripts/proclaim.ts'
import { RAISE } from './scripts/raise.ts'
import { Survey } from './survey.ts'
import { causeOf, refusalIn } from './verdict.ts'
import { noQuorum, type Voters } from './voters.ts'

const TIMEOUT_MS = 500

/**
 * Each value has a number above the last one's, and nodes take only a larger one, so they agree in the
 * end although they get values in any order. The number begins at the clock: another process may go on
 * with the same lease.
 */
export async function proclaimOn(
  voters: Voters,
  lock: string,
  owner: string,
  value: string,
  held: Held | null,
): Promise<'proclaimed' | 'not-held'> {
  const { ports, quorum } = voters
  const last = held?.proclamation ?? 0
  const number = Math.max(last + 1, Math.floor(voters.seams().wallMs() * 1000))
  const args = [ownerMark(owner), String(number), proclaimed(value)]
  if (held !== null) {
    held.proclamation = number
    held.owedValue = args
  }
  let isTooLong = false
  const survey = new Survey(voters, {
    request: (node, asker) => new NodeRequest(PROCLAIM, [lock], args, asker, node, TIMEOUT_MS),
    read: (_, reply) => {
      const answer = String(reply)
      if (answer === 'too-long') isTooLong = true
      // A later value of ours stands: what is asked for has been superseded, not refused.
      return answer === 'proclaimed' || answer === 'older' ? 'yes' : 'no'
    },
    isDecided: (asked) => asked.count('yes') >= quorum || asked.count('no') > ports.length - quorum,
  })
  await survey.result
  if (isTooLong) {
    if (held !== null) held.owedValue = null
    throw new InvalidArgumentError('value', value, 'text that fits beside the label')
  }
  if (survey.count('yes') >= quorum) {
    if (held?.owedValue === args) held.owedValue = null
    return 'proclaimed'
  }
  if (survey.count('no') > ports.length - quorum) return 'not-held'
  const error = noQuorum(voters, 'proclaim', survey.votes(), true)
  if (error instanceof OutcomeUnknownError) throw error
  throw new OutcomeUnknownError(error.message, { cause: error, votes: survey.votes() })
}

/** By a renewal: fewer than a quorum have said that they have it. */
export function proclaimAgain(voters: Voters, held: Held): void {
  const args = held.owedValue
  if (args === null) return
  const { lock } = held.keys
  const survey = new Survey(voters, {
    request: (node, asker) => new NodeRequest(PROCLAIM, [lock], args, asker, node, TIMEOUT_MS),
    read: (_, reply) => (String(reply) === 'not-held' ? 'no' : 'yes'),
    isDecided: (asked) => asked.count('yes') >= voters.quorum,
  })
  survey.result.then(
    () => {
      const isTold = survey.count('yes') >= voters.quorum
      if (isTold && held.owedValue === args) held.owedValue = null
    },
    // A bug that the next call of the user meets as well.
    () => undefined,
  )
}

/** @throws BackendUnavailableError or OutcomeUnknownError when fewer than a quorum took it. */
export async function raiseOn(voters: Voters, keys: string[], token: bigint): Promise<void> {
  const { setId, runId } = voters.admission.expected()
  const args = [token.toString(), setId, runId]
  const survey = new Survey(voters, {
    request: (node, asker) => new NodeRequest(RAISE, keys, args, asker, node, TIMEOUT_MS),
    read: (node, reply, asked) => {
      if (!Array.isArray(reply)) return 'yes'
      const refusal = refusalIn(textsOf(reply))
      const port = voters.ports[node]
      if (refusal === null || port === undefined) return 'no'
      voters.admission.onRefusal(port, refusal)
      asked.blame(node, causeOf(refusal, port.name))
      return 'failed'
    },
    isDecided: (asked) => asked.count('yes') >= voters.quorum,
  })
  await survey.result
  if (survey.count('yes') >= voters.quorum) return
  throw noQuorum(voters, 'raise', survey.votes(), survey.mayBeApplied())
}
