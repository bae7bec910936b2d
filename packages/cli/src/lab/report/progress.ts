import { MultiBar, type SingleBar } from 'cli-progress'
import type { Progress } from '../run.ts'

/** One bar for each arm, on stderr, and only where stderr is a terminal. */
export class ProgressBars {
  readonly #bars: MultiBar | null
  readonly #byArm = new Map<string, SingleBar>()

  constructor(scenario: string, arms: readonly string[], rounds: number) {
    if (process.stderr.isTTY !== true) {
      this.#bars = null
      return
    }
    const width = Math.max(...arms.map((arm) => arm.length))
    this.#bars = new MultiBar({
      stream: process.stderr,
      format: '{scenario}  {arm}  [{bar}]  {value}/{total}{redrawn}',
      barsize: 30,
      hideCursor: true,
      clearOnComplete: true,
      // Signals are the lab's own business; it stops the bars, which shows the cursor again.
      gracefulExit: false,
    })
    for (const arm of arms) {
      const payload = { scenario, arm: arm.padEnd(width), redrawn: '' }
      this.#byArm.set(arm, this.#bars.create(rounds, 0, payload))
    }
  }

  update({ arm, roundsDone, redrawn }: Progress): void {
    const text = redrawn === 0 ? '' : `, ${redrawn} drawn again`
    this.#byArm.get(arm)?.update(roundsDone, { redrawn: text })
  }

  /** Calling twice is safe. */
  stop(): void {
    this.#bars?.stop()
  }
}
