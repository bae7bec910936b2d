/**
 * A worker: one process, one role. It does what its scenario's program says and tells the lab of
 * every operation. It decides nothing about the experiment's outcome.
 *
 * When the pipe to the lab breaks, the lab is dead. A worker that stands still by SIGSTOP cannot
 * see that and would stay for ever, so those that run end their siblings too.
 */
import type { Sibling, ToWorker } from './messages.ts'
import { RoundWorker } from './round-worker.ts'
import { signalProcess } from './servers/process-identity.ts'
import { tell } from './tell.ts'
import { TrialWorker } from './trial-worker.ts'

let roundWorker: RoundWorker | null = null
let trialWorker: TrialWorker | null = null
let siblings: readonly Sibling[] = []
let isEnding = false

async function obey(message: ToWorker): Promise<void> {
  switch (message.type) {
    case 'set-up-rounds':
      roundWorker = await RoundWorker.open(message)
      return tell({ type: 'ready' })
    case 'set-up-trial':
      trialWorker = await TrialWorker.open(message)
      return tell({ type: 'ready' })
    case 'siblings':
      siblings = message.siblings
      return
    case 'round':
      return roundWorker?.obey(message)
    case 'job':
      return trialWorker?.obey(message)
    case 'mark':
      return (roundWorker ?? trialWorker)?.obey(message)
    case 'end':
      isEnding = true
      await (roundWorker ?? trialWorker)?.close()
      process.disconnect()
      return
    default:
      message satisfies never
  }
}

process.on('message', (message: ToWorker) => {
  obey(message).catch((error: unknown) => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    void tell({ type: 'failed', error: text })
  })
})
process.on('disconnect', () => {
  if (!isEnding) {
    for (const { pid, startTicks } of siblings) signalProcess(pid, startTicks, 'SIGKILL')
  }
  process.exit()
})
// Ctrl-C on a terminal reaches every process there. The lab ends its workers itself, in order.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
