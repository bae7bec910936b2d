#!/usr/bin/env node
/** The command `holdfast`. */
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { endOnClosedPipe } from './closed-pipe.ts'
import { labCommand } from './lab/args.ts'
import { runLab, usageExitCode } from './lab/lab.ts'
import { withoutSecrets } from './quoted.ts'
import { redlockCommand } from './redlock/args.ts'
import { redlockActions } from './redlock/redlock.ts'

endOnClosedPipe()
const { version } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
) as { version: string }

const program = new Command('holdfast')
  .description('Distributed locks with fencing tokens, and the lab that shows what they do.')
  .version(version)
  .exitOverride()
  .configureOutput({ outputError: (text, write) => write(withoutSecrets(text)) })
program.addCommand(
  labCommand(async (options) => {
    process.exitCode = await runLab(options, 'holdfast lab')
  }).exitOverride(),
)
program.addCommand(
  redlockCommand(
    redlockActions((exitCode) => {
      process.exitCode = exitCode
    }),
  ).exitOverride(),
)

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = usageExitCode(error)
}
