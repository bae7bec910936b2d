/**
 * Part of scripts that grant: leaves `now`, microseconds since 1970 as decimal text, and `time`.
 *
 * Without the zeros a clock of 5 microseconds past the second would be five digits short. They are
 * missing from one reading in ten only, and string.format costs more than all the rest of this.
 */
export const NOW = /* lua */ `
local time = redis.call('TIME')
local now = #time[2] == 6 and time[1] .. time[2] or time[1] .. string.format('%06d', time[2])
`
