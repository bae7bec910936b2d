/** Every script that the backends on Redis send, by the name under which Redis caches it. */
import { ACQUIRE } from '../../../backends/redis/scripts/acquire.ts'
import { CANCEL } from '../../../backends/redis/scripts/cancel.ts'
import { ADMIT, GATED_ACQUIRE } from '../../../backends/redis/scripts/gate.ts'
import { HAND_OVER } from '../../../backends/redis/scripts/hand-over.ts'
import { AWAIT, FACTS, INSPECT, LIST } from '../../../backends/redis/scripts/look.ts'
import { OWNS } from '../../../backends/redis/scripts/owns.ts'
import { PROCLAIM } from '../../../backends/redis/scripts/proclaim.ts'
import { RAISE } from '../../../backends/redis/scripts/raise.ts'
import { RELEASE, REST } from '../../../backends/redis/scripts/release.ts'
import { RENEW } from '../../../backends/redis/scripts/renew.ts'
import { REVOKE } from '../../../backends/redis/scripts/revoke.ts'
import type { RedisScript } from '../../../clients/redis.ts'
import { admit, gatedAcquire } from './gate.ts'
import { acquire, handOver, revoke } from './granting.ts'
import { cancel, owns, proclaim, release, renew, rest } from './holding.ts'
import { awaitName, facts, inspect, list } from './looking.ts'
import type { ScriptModel } from './model.ts'
import { REDLOCK_MODELS } from './redlock/index.ts'
import { raise } from './tokens.ts'

const MODELLED: readonly (readonly [RedisScript, ScriptModel])[] = [
  [ACQUIRE, acquire],
  [GATED_ACQUIRE, gatedAcquire],
  [ADMIT, admit],
  [HAND_OVER, handOver],
  [REVOKE, revoke],
  [RENEW, renew],
  [RELEASE, release],
  [REST, rest],
  [CANCEL, cancel],
  [PROCLAIM, proclaim],
  [OWNS, owns],
  [RAISE, raise],
  [INSPECT, inspect],
  [LIST, list],
  [AWAIT, awaitName],
  [FACTS, facts],
  ...REDLOCK_MODELS,
]

export const SCRIPT_MODELS: ReadonlyMap<string, ScriptModel> = new Map(
  MODELLED.map(([{ sha1 }, model]) => [sha1, model]),
)

export const MODELLED_SCRIPTS: readonly RedisScript[] = MODELLED.map(([script]) => script)
