/** What `npm run bench` starts. */
import { endOnClosedPipe } from '../../packages/cli/dist/closed-pipe.js'
import { bench } from './bench.ts'

endOnClosedPipe()
// Peers keep timers and connections of their own; nothing that is left may hold the bench open.
process.exit(await bench(process.argv.slice(2), process.env))
