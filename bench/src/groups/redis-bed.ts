/** The server of a group on Redis, and a look into it. */
import { startRedis } from '../../../packages/cli/dist/lab/servers/index.js'
import { ServerLook } from '../server-look.ts'

export interface RedisBed {
  readonly port: number
  readonly look: ServerLook
}

/** Of each group its own, so that none finds another's keys and scripts. Nothing is kept on disk. */
export async function openRedisBed(): Promise<RedisBed & { close(): Promise<void> }> {
  const server = await startRedis()
  try {
    const look = await ServerLook.open(server.port)
    const close = async (): Promise<void> => {
      look.close()
      await server.stop()
    }
    return { port: server.port, look, close }
  } catch (error) {
    await server.stop()
    throw error
  }
}
