/**
 * What is added to every revision to make a token: 0, unless tokens were raised. Go programs know nothing
 * of it, and with 0 their revisions are our tokens.
 *
 * Every place is made under the condition that the base is still the one that we know, so a base that
 * somebody raised meanwhile is never missed.
 */
import type { Compare, KeyValue } from '../../clients/etcd/messages.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import { TOKEN_MAX } from '../../core/token.ts'
import type { Keys } from './keys.ts'
import { isUnchanged } from './transactions.ts'

const ABSENT = '0'

export class Base {
  readonly #keys: Keys
  value = 0n
  #modRevision: string = ABSENT

  constructor(keys: Keys) {
    this.#keys = keys
  }

  /** The condition under which `value` is the base. */
  isCurrent(): Compare {
    return isUnchanged(this.#keys.base, this.#modRevision)
  }

  /** @returns Whether it is another one than was known. */
  note(found: KeyValue | undefined): boolean {
    const modRevision = found?.mod_revision ?? ABSENT
    if (modRevision === this.#modRevision) return false
    const text = found?.value?.toString() ?? ABSENT
    if (!/^[0-9]{1,19}$/.test(text)) {
      const words = `what stands at ${this.#keys.base.toString()} is no number: tokens cannot be made`
      throw new BackendUnavailableError('down', words)
    }
    this.#modRevision = modRevision
    this.value = BigInt(text)
    return true
  }
}

/** @throws BackendUnavailableError when the base was raised to where no token is left. */
export function tokenAt(revision: bigint, base: bigint): bigint {
  const token = revision + base
  if (token <= TOKEN_MAX) return token
  throw new BackendUnavailableError(
    'down',
    'no fencing token is left: the base of this key prefix was raised to its end',
  )
}
