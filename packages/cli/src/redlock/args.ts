/** `holdfast redlock`: what operators do with the nodes of a Redlock. */
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { withoutSecrets } from '../quoted.ts'
import { type NodeUrl, readNodeUrls } from './node-urls.ts'

export interface CommonOptions {
  readonly keyPrefix: string
  readonly json: boolean
}

export type StatusOptions = CommonOptions & { readonly nodes: readonly NodeUrl[] }
export type InitOptions = StatusOptions & { readonly maxTtlMs: number | undefined }
export type ReconfigureOptions = CommonOptions & {
  readonly from: readonly NodeUrl[]
  readonly to: readonly NodeUrl[]
  readonly maxTtlMs: number | undefined
}

/** What the subcommands do, once their arguments are right. */
export interface RedlockActions {
  status(options: StatusOptions): Promise<void>
  init(options: InitOptions): Promise<void>
  reconfigure(options: ReconfigureOptions): Promise<void>
}

interface RawOptions {
  readonly prefix: string
  readonly json?: true
  readonly maxTtl?: number
  readonly force?: true
  readonly from?: string[]
  readonly to?: string[]
}

const MAX_TTL_MS_MIN = 100
const MAX_TTL_MS_MAX = 86_400_000
const NODES =
  'every node of the set, as name=redis://[user:password@]host[:port][/db], or all as one redlock://'
const ALL_OF = 'every node of the'

/** @param actions Wrong arguments reach none of them: those are a {@link CommanderError}. */
export function redlockCommand(actions: RedlockActions): Command {
  const command = new Command('redlock')
    .description('The nodes of a Redlock: see whether they vote, let them vote, change them.')
    .addHelpText('after', HELP)
    .configureOutput({ outputError: (text, write) => write(withoutSecrets(text)) })
  const status = common(command.command('status').argument('<nodes...>', NODES))
  status.description('what each node says of itself; changes nothing')
  status.action((nodes: string[], raw: RawOptions) =>
    actions.status({ ...commonOf(raw), nodes: urlsOf(nodes) }),
  )
  const init = common(command.command('init').argument('<nodes...>', NODES))
  init.description('let those vote that answer, after a wait, though others do not; see below')
  init.option('--force', 'has to be said: it assumes that clocks have moved forward')
  addMaxTtl(init, 'of a prefix that no node knows')
  init.action((nodes: string[], raw: RawOptions) => {
    if (raw.force !== true) throw usageError("option '--force' has to be said; see --help")
    return actions.init({ ...commonOf(raw), nodes: urlsOf(nodes), maxTtlMs: raw.maxTtl })
  })
  const reconfigure = common(command.command('reconfigure'))
  reconfigure.description('give up a set of nodes for another one; see below')
  reconfigure.requiredOption('--from <nodes...>', `${ALL_OF} old set, a majority has to answer`)
  reconfigure.requiredOption('--to <nodes...>', `${ALL_OF} new set, all have to answer`)
  addMaxTtl(reconfigure, 'of the new set, if it is to be longer than that of the old')
  reconfigure.action((raw: RawOptions) =>
    actions.reconfigure({
      ...commonOf(raw),
      ...{ from: urlsOf(raw.from ?? []), to: urlsOf(raw.to ?? []), maxTtlMs: raw.maxTtl },
    }),
  )
  return command
}

function common(command: Command): Command {
  return command
    .option('--prefix <text>', 'the key prefix', 'lock:')
    .option('--json', 'one JSON text on stdout instead of a table')
    .exitOverride()
}

function addMaxTtl(command: Command, of: string): void {
  const range = `${MAX_TTL_MS_MIN} to ${MAX_TTL_MS_MAX}`
  command.option('--max-ttl <ms>', `the longest TTL ${of}: ${range} milliseconds`, milliseconds)
}

function milliseconds(text: string): number {
  const value = Number(text)
  if (!/^\d{1,9}$/.test(text) || value < MAX_TTL_MS_MIN || value > MAX_TTL_MS_MAX) {
    throw new InvalidArgumentError(
      `Allowed: a whole number from ${MAX_TTL_MS_MIN} to ${MAX_TTL_MS_MAX}.`,
    )
  }
  return value
}

function commonOf({ prefix, json }: RawOptions): CommonOptions {
  return { keyPrefix: prefix, json: json === true }
}

function urlsOf(texts: readonly string[]): NodeUrl[] {
  try {
    return readNodeUrls(texts)
  } catch (error) {
    throw usageError(error instanceof Error ? error.message : String(error))
  }
}

function usageError(message: string): CommanderError {
  return new CommanderError(2, 'redlock.usage', `error: ${message}`)
}

const HELP = `
A node is given as name=url, by the name that programs give it: the names are the set. The name is all
before =redis://, or =rediss://, with which the connection is encrypted. Programs that connect by a URL
call a node host:port: 10.0.0.1:6379=redis://10.0.0.1, or the same one URL for all nodes,
redlock://10.0.0.1,10.0.0.2,10.0.0.3 or redlock+tls://…, without its parameters. What is on a command line can be seen by others on the machine, so a
password may stand in HOLDFAST_REDIS_PASSWORD (and a user in HOLDFAST_REDIS_USERNAME) instead, for
all nodes whose URL has none.

status: a node that is waiting, empty or restarted came back without its data, or is new. Programs that
use it let it vote, after one longest TTL.

init --force: when a majority lost their data and a node is gone for good, programs wait for that node,
because it may know tokens that no other knows. This waits for one longest TTL and lets the others vote,
above the clock. It assumes that the clocks have moved forward since.

reconfigure: closes the old set on a majority of it, waits for one longest TTL, in which nothing is
granted, and lets the new set vote. Start programs with the new nodes when it has ended. Whatever ends it
before, the same command goes on.

Exit codes: 0 done, and of status: a majority votes; 1 not; 2 wrong usage. 128 + n: ended by signal n.`
