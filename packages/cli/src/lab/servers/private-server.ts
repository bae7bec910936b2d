/** What the private servers have in common: one process at a time, and a folder for all of them. */
import { createServerFolder, removeServerFolder } from './run-folder.ts'
import type { Server, ServerProcess } from './server-process.ts'

export abstract class PrivateServer implements Server {
  abstract readonly name: string
  abstract readonly port: number
  readonly folder: string
  /** Null before the first start. */
  protected process: ServerProcess | null = null
  readonly #endSignal: NodeJS.Signals
  readonly #graceMs: number

  /**
   * @param kind Names the folder.
   * @param endSignal What ends it in order.
   * @param graceMs How long that may take before SIGKILL follows.
   */
  constructor(kind: string, endSignal: NodeJS.Signals, graceMs: number) {
    this.folder = createServerFolder(kind)
    this.#endSignal = endSignal
    this.#graceMs = graceMs
  }

  get pid(): number {
    return this.process?.pid ?? 0
  }

  async stop(): Promise<void> {
    await this.process?.end(this.#endSignal, this.#graceMs)
    removeServerFolder(this.folder)
  }

  async kill(): Promise<void> {
    await this.process?.kill()
  }

  freeze(): void {
    this.process?.freeze()
  }

  thaw(): void {
    this.process?.thaw()
  }
}
