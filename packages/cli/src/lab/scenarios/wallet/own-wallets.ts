/**
 * A wallet for each performance of a round, opened by the lab with what the story begins with. What
 * one performance does to its wallet, its lock and its fence is nothing to the next, so there is
 * nothing to undo, and each final balance is an answer of its own.
 */
import type { Outcome } from '../../history.ts'
import type { Place, Scenario } from '../../scenario.ts'
import type { Ground, WalletStores } from '../ground/ground.ts'
import { walletNameOf } from './judge-own.ts'
import { openWallet, prepareTables, type WalletState, walletState } from './stores.ts'

/** What `finalState` reads: by wallet name. */
export type WalletStates = Readonly<Record<string, WalletState>>

type OwnWallets = Pick<
  Scenario<WalletStores>,
  'open' | 'prepare' | 'remember' | 'undo' | 'finalState'
>

/** The parts of a scenario that see to the wallets. */
export function ownWallets(ground: Ground, openedWith: number): OwnWallets {
  return {
    open: (addresses, role) => ground.openWallets(addresses, role),
    prepare: prepareTables,
    remember: async (stores, place, id) => {
      await openWallet(stores, walletNameOf(id, place.name), openedWith)
      return openedWith
    },
    undo: async (): Promise<Outcome> => ({ answer: 'nothing-to-do' }),
    finalState: walletsOf,
  }
}

async function walletsOf(stores: WalletStores, { name }: Place): Promise<WalletStates> {
  const { rows } = await stores.db.query<{ id: string }>(
    'SELECT id FROM wallets WHERE substr(id, 1, $1) = $2',
    [name.length + 1, `${name}/`],
  )
  const states: Record<string, WalletState> = {}
  for (const { id } of rows) states[id] = await walletState(stores, id)
  return states
}
