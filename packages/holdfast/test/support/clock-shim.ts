/** A redis-server whose wall clock a test can set. */
import { makeClockShim, startRedis, whyNoClockShim } from '../../../cli/src/lab/servers/index.ts'

export { whyNoClockShim }

export interface ClockedRedis {
  readonly port: number
  /** Steps the wall clock of the server; 0 is the machine's. */
  setOffset(ms: number): void
  /** Ends it, and starts it empty on the same port with the same clock. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export async function startClockedRedis(): Promise<ClockedRedis> {
  const clock = makeClockShim()
  const server = await startRedis({ env: clock.env })
  return {
    port: server.port,
    setOffset: (ms) => clock.setOffset(ms),
    restart: () => server.restart(),
    stop: async () => {
      await server.stop()
      clock.remove()
    },
  }
}
