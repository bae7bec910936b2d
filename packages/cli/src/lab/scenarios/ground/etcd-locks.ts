/** Locks in etcd, as a program has them: with the default options, by all members that it was told of. */
import { createLocks, type Locks } from 'holdfast'
import { etcdBackend } from 'holdfast/etcd'

/** @param endpoints `host:port` of each. The connections are the locks' own and end with them. */
export function openEtcdLocks(endpoints: readonly string[]): Locks {
  return createLocks(etcdBackend({ endpoints }))
}
