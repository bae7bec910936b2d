/** The program behind `npm run sim`; what it does is in main.ts. */
import { main } from './main.ts'

process.exitCode = await main(
  process.argv.slice(2),
  (text) => process.stdout.write(text),
  (text) => process.stderr.write(text),
)
