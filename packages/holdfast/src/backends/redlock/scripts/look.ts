import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { AWAIT_LUA, INSPECTION, LISTING } from '../../../wire/look.ts'

/**
 * What stands at the key of a lock on this node: {kind, remaining ms, first, second, owner}. The owner
 * is for putting together what nodes say of one lease, and is told to nobody.
 */
export const INSPECT: RedisScript = defineScript(
  'inspect',
  /* lua */ `
-- The owner comes last: 22 characters, '' for what is no lock of ours
local shows_owner = true
${INSPECTION}`,
)

/** One page of a listing of this node; the owner comes last of each lock, as of INSPECT. */
export const LIST: RedisScript = defineScript(
  'list',
  /* lua */ `
-- The owner is a sixth field of each lock: 22 characters, '' for what is no lock of ours
local shows_owner = true
${LISTING}`,
)

/** Whether a name is taken here; if so, says there that somebody waits. */
export const AWAIT: RedisScript = defineScript('await', AWAIT_LUA)

/** What an operator should know of the node, as far as this user may ask. */
export const FACTS: RedisScript = defineScript(
  'facts',
  /* lua */ `
-- KEYS[1] lock  no key that is read: it tells what the client puts before keys
-- Reply: {the key as sent, maxmemory-policy, 'writable' for a replica that takes writes,
--   run_id, 'master' or 'slave', replicas that are connected}, each '' where it is not told
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end
local replication = info('replication')
return {
  KEYS[1],
  string.match(info('memory'), 'maxmemory_policy:([%w-]+)') or '',
  string.find(replication, 'slave_read_only:0', 1, true) and 'writable' or '',
  string.match(info('server'), 'run_id:(%x+)') or '',
  string.match(replication, 'role:(%a+)') or '',
  string.match(replication, 'connected_slaves:(%d+)') or '',
}
`,
)
