/** Every script that a Redlock sends to its nodes. Some are, byte for byte, those of a single Redis. */
import { ACQUIRE } from '../../../../backends/redlock/scripts/acquire.ts'
import {
  ADMIT,
  ADOPT_RUN,
  CLOSE,
  COUNTERS,
  QUARANTINE,
  STATE,
} from '../../../../backends/redlock/scripts/admission.ts'
import { CANCEL } from '../../../../backends/redlock/scripts/cancel.ts'
import { EXTEND } from '../../../../backends/redlock/scripts/extend.ts'
import { AWAIT, FACTS, INSPECT, LIST } from '../../../../backends/redlock/scripts/look.ts'
import { PROBE } from '../../../../backends/redlock/scripts/probe.ts'
import { PROCLAIM } from '../../../../backends/redlock/scripts/proclaim.ts'
import { RAISE, RAISE_RECORDED } from '../../../../backends/redlock/scripts/raise.ts'
import { RELEASE, REST } from '../../../../backends/redlock/scripts/release.ts'
import { REPAIR } from '../../../../backends/redlock/scripts/repair.ts'
import { REVOKE } from '../../../../backends/redlock/scripts/revoke.ts'
import type { RedisScript } from '../../../../clients/redis.ts'
import { release, rest } from '../holding.ts'
import { awaitName, factsOfNode, inspectWithOwner, listWithOwners } from '../looking.ts'
import type { ScriptModel } from '../model.ts'
import { admit, adoptRun, close, counters, quarantine, state } from './admission.ts'
import { acquire, raise, raiseRecorded, revoke } from './granting.ts'
import { cancel, extend, proclaim, repair } from './holding.ts'

export const REDLOCK_MODELS: readonly (readonly [RedisScript, ScriptModel])[] = [
  [ACQUIRE, acquire],
  [RAISE_RECORDED, raiseRecorded],
  [EXTEND, extend],
  [REPAIR, repair],
  [RELEASE, release],
  [REST, rest],
  [CANCEL, cancel],
  [PROCLAIM, proclaim],
  [REVOKE, revoke],
  [RAISE, raise],
  [INSPECT, inspectWithOwner],
  [LIST, listWithOwners],
  [AWAIT, awaitName],
  [FACTS, factsOfNode],
  [STATE, state],
  [COUNTERS, counters],
  [QUARANTINE, quarantine],
  [ADMIT, admit],
  [ADOPT_RUN, adoptRun],
  [CLOSE, close],
  [PROBE, () => 1],
]
