/**
 * What is known of a client because its connection is ours: opened by `connect`, with settings of ours.
 *
 * Clients of users are not in here: they may keep requests for a later connection, which may lead to
 * another server.
 */
export interface OwnConnection {
  /**
   * The `run_id` of the server that answers what is sent in this very turn, if it is answered at all;
   * '' while it is not known.
   */
  runId(): string
}

const known = new WeakMap<object, OwnConnection>()

export function setOwnConnection(client: object, own: OwnConnection): void {
  known.set(client, own)
}

/** Null: the client is a user's. */
export function ownConnectionOf(client: object): OwnConnection | null {
  return known.get(client) ?? null
}
