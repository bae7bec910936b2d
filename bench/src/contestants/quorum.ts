/**
 * Locks on a quorum of three independent Redis servers: ours, on a user's clients and by `connect`.
 *
 * Clients are opened with nothing but the address, as a reader of their first page does: what a client
 * does with requests to a server that is gone, and how long it keeps them, is part of what is measured.
 */
import { createLocks, InvalidArgumentError } from 'holdfast'
import { connect } from 'holdfast/connect'
import { redlockBackend } from 'holdfast/redlock'
import { type Backlog, backlogOf, type DefaultClients, openDefaults } from '../clients.ts'
import { type Contestant, type Locker, TTL_MS } from '../contestant.ts'
import { holdfastLocker } from './holdfast.ts'

/** How long a caller lets a contestant try, milliseconds. */
export const QUORUM_WAIT_MS = 200
/** Servers, and as many as must grant. */
export const NODES = 3
export const QUORUM = 2

export interface QuorumLocker extends Locker {
  /** What a client has not been answered by one server; null where it cannot be read. */
  backlog(node: number): Backlog | null
}

export interface QuorumContestant extends Contestant<readonly number[]> {
  connect(ports: readonly number[]): Promise<QuorumLocker>
}

/** It is not there yet, which is no failure. The message is a line for people. */
export class MissingFormError extends Error {
  override readonly name = 'MissingFormError'
}

export const BY_CONNECT = 'by connect'

export function holdfastQuorum(): QuorumContestant[] {
  return [onClients('ioredis'), byConnect, onClients('node-redis')]
}

const OURS = { who: 'holdfast', isOwnerChecked: true, hasToken: true } as const
const DEFAULTS = { ttlMs: TTL_MS, waitMs: QUORUM_WAIT_MS } as const

function onClients(client: 'ioredis' | 'node-redis'): QuorumContestant {
  return {
    ...OURS,
    variant: '',
    client,
    connect: async (ports) => {
      const clients = await openDefaults(client, ports)
      const [a, b, c] = clients.all as [never, never, never]
      // New servers: nothing can have been forgotten. A prefix is one set of names.
      const options = { onEmpty: 'fresh', keyPrefix: `bench-${client}:` } as const
      const locks = createLocks(redlockBackend({ a, b, c }, options), DEFAULTS)
      return withBacklog(
        holdfastLocker(locks, () => clients.end()),
        clients,
      )
    },
  }
}

/** On connections that are ours, where the run of a server is known and no script has to ask for it. */
const byConnect: QuorumContestant = {
  ...OURS,
  variant: BY_CONNECT,
  client: 'ioredis',
  connect: async (ports) => {
    const url = `redlock://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`
    const options = { driver: 'ioredis', onEmpty: 'fresh', keyPrefix: 'bench-connect:' } as const
    try {
      const locks = await connect(url, { ...options, ...DEFAULTS })
      const locker = holdfastLocker(locks, () => undefined)
      return { ...locker, backlog: () => null }
    } catch (error) {
      if (!isUnknownScheme(error)) throw error
      throw new MissingFormError('holdfast, by connect, is missing: connect knows no redlock: yet')
    }
  },
}

function isUnknownScheme(error: unknown): boolean {
  if (!(error instanceof InvalidArgumentError) || error.option !== 'url') return false
  return error.allowed.startsWith('one of ') && !error.allowed.includes('redlock:')
}

export function withBacklog(locker: Locker, clients: DefaultClients): QuorumLocker {
  return { ...locker, backlog: (node) => backlogOf(clients.all[node]) }
}
