/**
 * What the exhaustive model is asked: the protocol as it is, and bugs that it must find.
 *
 * The rules are switches of the model, which nobody publishes; the product has none.
 */
import { AdmissionModel, type AdmissionRules, SOUND_ADMISSION } from './admission-model.ts'
import type { Model } from './explore.ts'
import { type Rejoin, SOUND, TokenModel, type TokenRules, type TokenScope } from './token-model.ts'

export interface Variant {
  readonly name: string
  /** `holds`: the protocol; `broken`: a bug, for which there must be a counterexample. */
  readonly expected: 'holds' | 'broken'
  readonly model: () => Model
}

const SMALL: TokenScope = { range: 1, resends: 0, losses: 0 }
const RESENT: TokenScope = { range: 0, resends: 1, losses: 0 }
const LOSS: TokenScope = { range: 0, resends: 0, losses: 1 }
const LOSSES = 2

/** The acknowledgement of a raise says that it still is the owner, and no token. */
const ACK: Partial<TokenRules> = { raiseAnswers: 'owner' }

/** All of them together take some twenty seconds. */
export const VARIANTS: readonly Variant[] = [
  holding('exact', () => tokens({}, SMALL)),
  holding('ackOwner', () => tokens(ACK, SMALL)),
  // The answer of a node whose grant was not heard counts, although it has a larger token recorded.
  bug('ackAnyOwner', () => tokens({ ...ACK, raiseTo: 'all' }, SMALL)),
  // Once an acquire can be executed twice, being the owner still says nothing about the token.
  bug('ackOwnerResent', () => tokens(ACK, RESENT)),
  bug('noRaise', () => tokens({ confirm: 'firstQuorum' }, SMALL)),
  bug('raiseUncond', () => tokens({ raiseChecksOwner: false }, SMALL)),
  bug('tokenMax', () => tokens({ confirm: 'largest' }, SMALL)),
  bug('quorumOfOne', () => tokens({ confirm: 'anyNode' }, SMALL)),
  bug('counterRollback', () => tokens({ counterFalls: true }, SMALL)),
  holding('waitThenRepair', () => tokens({}, LOSS)),
  bug('repairEarly', () => tokens({}, LOSS, 'repair-then-wait')),
  bug('repairNoWait', () => tokens({}, LOSS, 'repair-only')),
  bug('repairReadOne', () => tokens({}, LOSS, 'wait-then-repair-of-one')),
  bug('rejoinNaive', () => tokens({}, LOSS, 'at-once')),
  holding('admit', () => admission({}, LOSSES)),
  bug('admitWithoutInc', () => admission({ compares: 'nothing' }, LOSSES)),
  bug('admitOnOthersWait', () => admission({ waits: 'anybody' }, LOSSES)),
  bug('admitWithoutWait', () => admission({ waits: 'nobody' }, LOSSES)),
  bug('incKept', () => admission({ incarnation: 'kept' }, LOSSES)),
  bug('floorWithoutClock', () => admission({ withoutQuorum: 'counters' }, LOSSES)),
  bug('stopsWithoutQuorum', () => admission({ withoutQuorum: 'never' }, LOSSES)),
]

/** The protocol again, where a search takes minutes. */
export const LARGE_VARIANTS: readonly Variant[] = [
  holding('exactRange2', () => tokens({}, { ...SMALL, range: 2 })),
  holding('exactResent', () => tokens({}, RESENT)),
  holding('exactRaiseAll', () => tokens({ raiseTo: 'all' }, SMALL)),
  holding('waitThenRepairRange1', () => tokens({}, { ...LOSS, range: 1 })),
  holding('waitThenRepairTwice', () => tokens({}, { ...LOSS, losses: 2 })),
  holding('admitThreeLosses', () => admission({}, 3)),
]

function holding(name: string, model: () => Model): Variant {
  return { name, expected: 'holds', model }
}

function bug(name: string, model: () => Model): Variant {
  return { name, expected: 'broken', model }
}

function tokens(rules: Partial<TokenRules>, scope: TokenScope, rejoin?: Rejoin): Model {
  return new TokenModel({ ...SOUND, ...rules }, scope, rejoin)
}

function admission(rules: Partial<AdmissionRules>, losses: number): Model {
  return new AdmissionModel({ ...SOUND_ADMISSION, ...rules }, losses)
}
