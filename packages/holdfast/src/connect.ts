/// <reference lib="esnext.disposable" preserve="true" />
/** Locks by a URL: `await connect('redis://…')`. It opens the connections, and ends them. */
export { connect } from './connect/connect.ts'
export type { DriverName } from './connect/drivers.ts'
export type { ConnectOptions, TlsOptions } from './connect/options.ts'
