import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/** Whether the entry is this owner's; WAIT follows it on the same connection. */
export const OWNS: RedisScript = defineScript(
  'confirmation',
  /* lua */ `
-- KEYS[1] lock  string, the value of the grant; expires
-- ARGV[1] mark  'hf1:<owner>:'
-- Reply: 1 this owner's, 0 not
local value = redis.call('MGET', KEYS[1])[1]
return value and string.sub(value, 1, 27) == ARGV[1] and 1 or 0
`,
)
