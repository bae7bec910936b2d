/** Schedules and mutants on several threads: each has seeds, or mutants, of its own. */
import { Worker } from 'node:worker_threads'
import type { Mutant } from './mutants.ts'
import { Mutants, type Seeds, type Verdict } from './mutate.ts'
import { type Asked, type Part, type Summary, simulate } from './report.ts'

export type Task =
  | Readonly<{ kind: 'simulate'; asked: Asked; part: Part }>
  | Readonly<{
      kind: 'judge'
      folder: string
      mutants: readonly Mutant[]
      part: Part
      seeds: Seeds
    }>

/** What a thread does; the first one is this one. */
export async function run(task: Task): Promise<Summary | Verdict[]> {
  if (task.kind === 'simulate') return simulate(task.asked, task.part)
  const { folder, mutants, part, seeds } = task
  const compiled = Mutants.at(folder, mutants)
  const verdicts: Verdict[] = []
  for (const [place, mutant] of mutants.entries()) {
    if (place % part.of === part.which) verdicts.push(await compiled.judge(mutant, seeds))
  }
  return verdicts
}

/** The same summary as of one thread, unless so much is broken that each stops early. */
export async function simulateOn(jobs: number, asked: Asked): Promise<Summary> {
  const parts = await onThreads<Summary>(jobs, (part) => ({ kind: 'simulate', asked, part }))
  const sum = (of: (summary: Summary) => number): number =>
    parts.reduce((total, summary) => total + of(summary), 0)
  return {
    schedules: sum(({ schedules }) => schedules),
    events: sum(({ events }) => events),
    acquisitions: sum(({ acquisitions }) => acquisitions),
    violations: parts
      .flatMap(({ violations }) => violations)
      .sort((one, other) => one.seed - other.seed),
  }
}

/** In the order of the list. */
export async function judgeOn(
  jobs: number,
  mutants: readonly Mutant[],
  seeds: Seeds,
): Promise<Verdict[]> {
  const compiled = await Mutants.compile(mutants)
  try {
    const { folder } = compiled
    const parts = await onThreads<Verdict[]>(jobs, (part) => {
      return { kind: 'judge', folder, mutants, part, seeds }
    })
    const verdicts = new Map(parts.flat().map((verdict) => [verdict.name, verdict]))
    return mutants.map(({ name }) => verdicts.get(name) as Verdict)
  } finally {
    compiled.remove()
  }
}

async function onThreads<T>(jobs: number, taskOf: (part: Part) => Task): Promise<T[]> {
  const tasks = Array.from({ length: jobs }, (_, which) => taskOf({ which, of: jobs }))
  const [own, ...others] = tasks
  const results = others.map((task) => onThread(task))
  return (await Promise.all([run(own as Task), ...results])) as T[]
}

/** Of the compiled simulation: a thread reads no TypeScript under every Node that is supported. */
function onThread(task: Task): Promise<Summary | Verdict[]> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: task })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`a thread ended with ${code}, without a result`)),
    )
  })
}
