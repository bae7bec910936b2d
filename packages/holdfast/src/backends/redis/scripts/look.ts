import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { AWAIT_LUA, INSPECTION, LISTING } from '../../../wire/look.ts'

/** What stands at the key of a lock. Nobody is told the owner, which is a secret. */
export const INSPECT: RedisScript = defineScript(
  'inspect',
  /* lua */ `
local shows_owner = false
${INSPECTION}`,
)

/** One page of a listing. */
export const LIST: RedisScript = defineScript(
  'list',
  /* lua */ `
local shows_owner = false
${LISTING}`,
)

/** Whether a name is taken; if so, says there that somebody waits. */
export const AWAIT: RedisScript = defineScript('await', AWAIT_LUA)

/** What an operator should know of the server, as far as this user may ask. */
export const FACTS: RedisScript = defineScript(
  'facts',
  /* lua */ `
-- KEYS[1] lock  no key that is read: it tells what the client puts before keys
-- Reply: {the key as sent, maxmemory-policy or '', 'writable' for a replica that takes writes or ''}
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end
local policy = string.match(info('memory'), 'maxmemory_policy:([%w-]+)') or ''
local is_writable = string.find(info('replication'), 'slave_read_only:0', 1, true)
return {KEYS[1], policy, is_writable and 'writable' or ''}
`,
)
