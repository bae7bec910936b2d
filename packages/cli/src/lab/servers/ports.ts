/**
 * Free ports on 127.0.0.1 for servers that may be restarted.
 *
 * They are drawn below the range from which the kernel takes the ports of outgoing connections
 * (Linux: 32,768 and up, `net.ipv4.ip_local_port_range`), not by binding port 0, which takes from
 * that range. While a server of ours is down, its port must not be given to somebody's outgoing
 * connection: the restart would fail, and a client that tries to reconnect all the time can even
 * be given the port it is calling and connect to itself.
 *
 * Between the look and the server's own bind somebody may take the port. The starters therefore
 * try again with another one.
 */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

const PORT_MIN = 15_000
/** Below every common start of the outgoing range (32,768 on Linux). */
const PORT_MAX = 32_000
/** A draw fails about as often as the range is full; this many in a row means something is wrong. */
const DRAWS_MAX = 50

/**
 * @param further A second port that must be free: this much above the first, in the same range.
 * @throws when no free port turned up in 50 draws.
 */
export async function findFreePort(further = 0): Promise<number> {
  for (let draw = 0; draw < DRAWS_MAX; draw++) {
    const port = randomInt(PORT_MIN, PORT_MAX - further)
    if ((await isFree(port)) && (further === 0 || (await isFree(port + further)))) return port
  }
  throw new Error(`no free port found on 127.0.0.1 in ${DRAWS_MAX} draws`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      probe.close(() => resolve(true))
    })
  })
}
