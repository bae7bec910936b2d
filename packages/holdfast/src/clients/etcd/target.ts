/**
 * Where an etcd is, and how it is entered. Apart from the client, whose types need those of Node and of
 * gRPC: a user's options must not.
 */

/** PEM texts. */
export type EtcdTls = Readonly<{
  ca?: Uint8Array | undefined
  cert?: Uint8Array | undefined
  key?: Uint8Array | undefined
}>

export type EtcdTarget = Readonly<{
  /** `host:port`, at least one. */
  endpoints: readonly string[]
  tls: EtcdTls | null
  login: Readonly<{ name: string; password: string }> | null
}>
