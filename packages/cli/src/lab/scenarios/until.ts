import { setTimeout as sleep } from 'node:timers/promises'

/** Longer than anything takes that is waited for here, also on a busy machine. */
const UNTIL_MS_MAX = 30_000
const POLL_MS = 5

/** Asks until it is so. Rejects after half a minute, or with what the question throws. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const giveUpAtMs = performance.now() + UNTIL_MS_MAX
  while (!(await isSo())) {
    if (performance.now() > giveUpAtMs) throw new Error(`not within ${UNTIL_MS_MAX} ms: ${what}`)
    await sleep(POLL_MS)
  }
}
