/// <reference lib="esnext.disposable" preserve="true" />
/** Locks among the processes of one host, without a server: `createLocks(sqliteBackend(database))`. */
export type { SqliteOptions } from './backends/sqlite/options.ts'
export { sqliteBackend } from './backends/sqlite/sqlite-backend.ts'
export type { SqliteDatabase, SqliteStatement } from './clients/sqlite.ts'
