/** Times of the connections that are ours, in milliseconds. */

/** For one try of a driver: TCP and, where there is one, the handshake of TLS. */
export const CONNECT_ATTEMPT_MS = 5000
/** Until the first probe on a connection that is idle, so that no router forgets it. */
export const KEEP_ALIVE_MS = 5000
/**
 * A connection on which nothing came back for so long is given up and made again. Locks give a request
 * up after 2 s, but without this a connection into a black hole stays until the kernel has had enough of
 * it, a quarter of an hour.
 */
export const SILENCE_MS = 10_000
/** node-redis counts silence also where nothing was asked, so that something must be. */
export const PING_MS = 4000
/** For one node of several: the others go on, so that giving up a connection early costs little. */
export const NODE_SILENCE_MS = 2000
export const NODE_PING_MS = 1000
/**
 * From the end of a connection to the moment when it is given up although the server has not closed its
 * side. ioredis keeps the process running for so long, also where the server is gone.
 */
export const DISCONNECT_MS = 300
/** For a question to a Sentinel: ioredis would wait for one that hangs, also after it was ended. */
export const SENTINEL_MS = 2000
