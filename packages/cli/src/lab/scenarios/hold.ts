/** TTL of a next holder: so long that no slow machine ends its hold before its part is over. */
export const HOLD_MS = 10_000
