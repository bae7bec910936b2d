/** A thread of the simulation: does what it was given, and says what came of it. */
import { parentPort, workerData } from 'node:worker_threads'
import { run, type Task } from './jobs.ts'

parentPort?.postMessage(await run(workerData as Task))
