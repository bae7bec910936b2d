/** TTL of B and C: so long that no slow machine ends their hold before the lab has looked. */
export const HOLD_MS = 10_000
