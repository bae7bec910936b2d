/// <reference lib="esnext.disposable" preserve="true" />
/** Locks in etcd: `createLocks(etcdBackend({ endpoints }))`. */
export { etcdBackend } from './backends/etcd/etcd-backend.ts'
export { type EtcdCompare, type EtcdGuard, etcdGuard } from './backends/etcd/guard.ts'
export type { EtcdOptions } from './backends/etcd/options.ts'
