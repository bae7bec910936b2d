import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/** Whether the node answers at all. */
export const PROBE: RedisScript = defineScript(
  'probe',
  /* lua */ `
-- Reply: 1
return 1
`,
)
