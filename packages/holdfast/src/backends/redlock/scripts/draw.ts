import { NOW } from '../../../wire/now.ts'

/**
 * Part of the scripts that grant: draws the next fencing token of this node.
 *
 * Takes `counter`, what stands there, `counter_key` and `proposed`, the client's clock in microseconds;
 * leaves `now` and `token`, decimal text: Lua's numbers are doubles and round above 2^53.
 *
 * The token is max(counter + 1, proposed): nodes that all take the same proposal agree in one round,
 * which they never would by their own clocks. A proposal more than a minute off this node's clock could
 * use up the tokens of a century; the clock takes its place. The counter is written before the lock: a
 * token drawn in vain is harmless, a lock above its counter is not.
 */
export const DRAW: string = /* lua */ `
${NOW}
local token = proposed
-- Exact below 2^53 µs, the year 2255; what is rounded above it is far more than a minute off.
if math.abs(tonumber(proposed) - tonumber(now)) > 60000000 then
  token = now
end
-- By length, then by bytes: '10' < '9' as text.
if #counter < #token or (#counter == #token and counter < token) then
  redis.call('SET', counter_key, token)
elseif counter == '9223372036854775807' then
  return {'no-token'}
else
  redis.call('INCR', counter_key)
  -- Read back, because the reply of INCR is a number.
  token = redis.call('GET', counter_key)
end
`
