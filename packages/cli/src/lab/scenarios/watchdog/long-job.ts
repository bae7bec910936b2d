/** The arm in which nothing fails: a job of ten TTLs keeps its lock, and somebody asks all the time. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import type { Redis } from 'ioredis'
import { monotonicUs } from '../../time.ts'
import type { Job, Trial } from '../../trial.ts'
import { openRedis } from '../ground/redis-client.ts'
import type { HeldLock } from './holder.ts'
import { locksOf, startHolders, sumOf, untilCounted } from './passes.ts'
import { Pulse } from './pulse.ts'
import { GAP_MS_MAX, JOB_TTL_MS, JOB_TTLS } from './times.ts'
import { noteRequests } from './wire.ts'

const LOOK_EVERY_MS = 100

export async function keepForLong(trial: Trial): Promise<null> {
  await untilCounted(trial, (first, count) =>
    onePass(trial, locksOf(trial, first, count, JOB_TTL_MS)),
  )
  return null
}

/** @returns how many rounds were those of a running holder, and of a running lab. */
async function onePass(trial: Trial, locks: readonly HeldLock[]): Promise<number> {
  const server = await trial.startRedis()
  const proxy = await trial.startProxy(server.port)
  noteRequests(trial, proxy, locks)
  const { workers, work } = await startHolders(trial, proxy.port, JOB_TTL_MS, locks, 'holdForLong')
  const asker = await trial.startWorker('asker')
  const asking = asker.run('ask', 0, { port: server.port, locks })
  await asker.until('asking')
  const beganAtUs = monotonicUs()
  const pulse = new Pulse()
  const redis = await openRedis({ redis: { host: '127.0.0.1', port: server.port } })
  const endAtMs = performance.now() + JOB_TTL_MS * JOB_TTLS
  while (performance.now() < endAtMs) {
    for (const lock of locks) await look(trial, redis, lock)
    await sleep(LOOK_EVERY_MS)
  }
  const gapMs = pulse.longestGapMs()
  pulse.stop()
  for (const { round } of locks) {
    trial.note(round, 'job', beganAtUs, { answer: 'over', value: gapMs })
  }
  for (const worker of workers) worker.mark('job-over')
  const running = await Promise.all(work)
  asker.mark('job-over')
  await asking
  redis.disconnect()
  await Promise.all([...workers, asker].map((worker) => worker.kill()))
  await proxy.close()
  await server.stop()
  return gapMs > GAP_MS_MAX ? 0 : sumOf(running)
}

/** Whose the key is and how long yet, by the store's own word. */
async function look(trial: Trial, redis: Redis, { name, round }: HeldLock): Promise<void> {
  await trial.call(round, 'look', async () => {
    const [value, ttlMs] = await Promise.all([
      redis.get(`lock:${name}`),
      redis.pttl(`lock:${name}`),
    ])
    return { answer: 'seen', detail: value ?? '', value: ttlMs }
  })
}

/** Asks for every lock in turn, while the job lasts and once when it is over. */
export async function ask(job: Job): Promise<void> {
  const { port, locks: names } = job.input as { port: number; locks: readonly HeldLock[] }
  const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
  const locks = createLocks(redisBackend(redis))
  const askAll = async (): Promise<void> => {
    for (const { name, round } of names) {
      const calledAtUs = monotonicUs()
      const lease = await locks.tryAcquire(name, { ttlMs: JOB_TTL_MS })
      job.note('ask', calledAtUs, { answer: lease === null ? 'refused' : 'granted' }, round)
      await lease?.release()
    }
  }
  await askAll()
  await job.mark('asking')
  while (!job.hasReached('job-over')) {
    await askAll()
    await sleep(LOOK_EVERY_MS)
  }
  await askAll()
  redis.disconnect()
}
