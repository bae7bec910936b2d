/**
 * Part of the scripts that look: what people may see of a value, without its owner, which is a secret.
 *
 * Leaves the function `describe(value)`: 'lock', token, metadata; 'rest'; or 'foreign', the first 64
 * bytes (of a whole character at the end), the digest of all of them.
 */
export const DESCRIBE = /* lua */ `
local function describe(value)
  local owner, token, metadata = string.match(value, '^hf1:([%w_-]+):(%d+):({.*)$')
  if owner and #owner == 22 and #token == 19 and #value <= 2048 then
    if owner == '----------------------' then
      return 'rest', '', ''
    end
    return 'lock', token, metadata
  end
  local cut = 64
  while cut > 60 and #value > cut do
    local byte = string.byte(value, cut + 1)
    -- 10xxxxxx goes on with a character that began before the cut.
    if byte < 128 or byte > 191 then
      break
    end
    cut = cut - 1
  end
  return 'foreign', string.sub(value, 1, cut), redis.sha1hex(value)
end
`
