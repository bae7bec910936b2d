/** What `npm run lab` starts. */
import { endOnClosedPipe } from '../closed-pipe.ts'
import { labMain } from './lab.ts'

endOnClosedPipe()
process.exitCode = await labMain(process.argv.slice(2))
