/** Runs what the command line asks for; see args.ts. */
import { LockError } from 'holdfast'
import {
  type NodeStatus,
  type RedlockOptions,
  redlockInit,
  redlockReconfigure,
  redlockStatus,
} from 'holdfast/redlock'
import type {
  CommonOptions,
  InitOptions,
  ReconfigureOptions,
  RedlockActions,
  StatusOptions,
} from './args.ts'
import type { NodeUrl } from './node-urls.ts'
import { Nodes } from './nodes.ts'
import { seconds, statusDocument, statusText } from './status-table.ts'

const EXIT = { done: 0, undone: 1, usage: 2 } as const
/** A second's pause between two looks is nothing to tell of. */
const WAIT_TOLD_MS_MIN = 1001

/** @param end Gets the exit code. */
export function redlockActions(end: (exitCode: number) => void): RedlockActions {
  return {
    status: async (options) => end(await status(options)),
    init: async (options) => end(await init(options)),
    reconfigure: async (options) => end(await reconfigure(options)),
  }
}

function status({ nodes: urls, ...common }: StatusOptions): Promise<number> {
  return withNodes([urls], async ([nodes]) => report(nodes, common, await lookAt(nodes, common)))
}

function init({ nodes: urls, maxTtlMs, ...common }: InitOptions): Promise<number> {
  return withNodes([urls], async ([nodes]) => {
    const options = { ...optionsOf(common, maxTtlMs), force: true, onWait: tellWait } as const
    return report(nodes, common, await redlockInit(nodes.clients, options))
  })
}

function reconfigure({ from, to, maxTtlMs, ...common }: ReconfigureOptions): Promise<number> {
  return withNodes([from, to], async ([old, next]) => {
    const options = { ...optionsOf(common, maxTtlMs), onWait: tellWait }
    await redlockReconfigure(old.clients, next.clients, options)
    return report(next, common, await lookAt(next, common))
  })
}

function optionsOf({ keyPrefix }: CommonOptions, maxTtlMs: number | undefined): RedlockOptions {
  return maxTtlMs === undefined ? { keyPrefix } : { keyPrefix, maxTtlMs }
}

function lookAt(nodes: Nodes, { keyPrefix }: CommonOptions): Promise<readonly NodeStatus[]> {
  return redlockStatus(nodes.clients, { keyPrefix })
}

/** @returns The exit code: whether a majority votes. */
function report(nodes: Nodes, common: CommonOptions, seen: readonly NodeStatus[]): number {
  const statuses = seen.map((one) =>
    one.state === 'unreachable' ? { ...one, detail: nodes.errorOf(one.node) ?? one.detail } : one,
  )
  const document = statusDocument(common.keyPrefix, statuses)
  const text = common.json ? JSON.stringify(document, null, 2) : statusText(document)
  process.stdout.write(`${text}\n`)
  return document.votingCount >= document.quorum ? EXIT.done : EXIT.undone
}

type Opened<U extends readonly unknown[]> = { [K in keyof U]: Nodes }

async function withNodes<U extends readonly (readonly NodeUrl[])[]>(
  urls: readonly [...U],
  use: (nodes: Opened<U>) => Promise<number>,
): Promise<number> {
  const opened = await Promise.all(urls.map((some) => Nodes.open(some)))
  try {
    return await use(opened as Opened<U>)
  } catch (error) {
    if (!(error instanceof LockError)) throw error
    say(error.message)
    for (const nodes of opened) for (const line of nodes.problems()) say(line)
    return error.code === 'INVALID_ARGUMENT' ? EXIT.usage : EXIT.undone
  } finally {
    for (const nodes of opened) nodes.close()
  }
}

function tellWait(waitMs: number): void {
  if (waitMs >= WAIT_TOLD_MS_MIN)
    say(`waiting for ${seconds(waitMs)}, until leases of before are over`)
}

function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
