import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { RELEASE_LUA, REST_LUA } from '../../../wire/release.ts'

/** Frees the name on this node if it is still this owner's; a node that must not vote does it too. */
export const RELEASE: RedisScript = defineScript('release', RELEASE_LUA)

/** An early release: nobody holds the name, and it stays taken for the rest of a minimum hold. */
export const REST: RedisScript = defineScript('release', REST_LUA)
