/// <reference lib="esnext.disposable" preserve="true" />
/** Locks in etcd: `createLocks(etcdBackend({ endpoints }))`. */
export { etcdBackend } from './backends/etcd/etcd-backend.ts'
export type { EtcdOptions } from './backends/etcd/options.ts'
