/** The program behind `npm run sim`; what it does is in main.ts. */
import { main } from './main.ts'

/** Of a program that SIGPIPE ended. */
const CLOSED_PIPE = 141

// Somebody read the first lines of a trace and went away (`| head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(CLOSED_PIPE)
})

process.exitCode = await main(
  process.argv.slice(2),
  (text) => process.stdout.write(text),
  (text) => process.stderr.write(text),
)
