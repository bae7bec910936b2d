/**
 * One schedule: everything that happens, in the order of (time, insertion), in true time.
 *
 * An event runs in a real `setImmediate` of its own: before the next one Node lets all promises settle
 * that it resolved. There is no other real asynchrony, so that a seed decides everything.
 */

/** No schedule has a tenth of it: a program that goes round in circles must end too. */
const EVENTS_MAX = 200_000
/** Asked for at once, for as many events: a round of Node's loop costs more than most of them. */
const TURNS = 64

type Event = Readonly<{ atMs: number; id: number; run: () => void }>

export class Scheduler {
  /** True time, which no process can read. Milliseconds. */
  nowMs = 0
  /** How many events have run. */
  count = 0
  /** Null: nobody wants to read it, and making its lines costs as much as all the rest. */
  readonly trace: string[] | null
  readonly #heap: Event[] = []
  #lastId = 0
  /** An event that nobody has looked at yet. */
  #hasRun = false

  constructor(keepsTrace: boolean) {
    this.trace = keepsTrace ? [] : null
  }

  /** Runs `run` at `atMs`, or now if that is past. */
  at(atMs: number, run: () => void): void {
    this.#lastId += 1
    const heap = this.#heap
    heap.push({ atMs: Math.max(atMs, this.nowMs), id: this.#lastId, run })
    let place = heap.length - 1
    while (place > 0) {
      const parent = (place - 1) >>> 1
      if (!isBefore(heap[place], heap[parent])) return
      swap(heap, place, parent)
      place = parent
    }
  }

  /** @param said A function, so that a line nobody reads is never made. */
  note(who: string, said: () => string): void {
    this.trace?.push(`${this.nowMs.toFixed(3).padStart(10)} ${who.padEnd(5)} ${said()}`)
  }

  /**
   * @param after Looks at the world after each event.
   * @throws Error when there are more events than any sound schedule has.
   */
  run(untilMs: number, after: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      let isOver = false
      const turn = (place: number): void => {
        if (isOver) return
        try {
          if (this.#runNext(untilMs, after)) {
            if (place === TURNS) ask()
            return
          }
          resolve()
        } catch (error) {
          reject(error)
        }
        isOver = true
      }
      const ask = (): void => {
        for (let place = 1; place <= TURNS; place++) setImmediate(turn, place)
      }
      // The first at once, before what the caller has begun goes on.
      turn(TURNS)
    })
  }

  /** @returns False: there was none left. */
  #runNext(untilMs: number, after: () => void): boolean {
    // What the last event resolved has settled by now.
    if (this.#hasRun) after()
    const first = this.#heap[0]
    this.#hasRun = first !== undefined && first.atMs <= untilMs
    if (!first || !this.#hasRun) {
      this.nowMs = untilMs
      return false
    }
    this.#removeFirst()
    this.nowMs = first.atMs
    this.count += 1
    if (this.count > EVENTS_MAX) throw new Error(`more than ${EVENTS_MAX} events in a schedule`)
    first.run()
    return true
  }

  #removeFirst(): void {
    const heap = this.#heap
    const last = heap.pop() as Event
    if (heap.length === 0) return
    heap[0] = last
    for (let place = 0; ; ) {
      const left = 2 * place + 1
      const child = isBefore(heap[left + 1], heap[left]) ? left + 1 : left
      if (!isBefore(heap[child], heap[place])) return
      swap(heap, place, child)
      place = child
    }
  }
}

function isBefore(one: Event | undefined, other: Event | undefined): boolean {
  if (one === undefined || other === undefined) return false
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.id < other.id)
}

function swap(heap: Event[], one: number, other: number): void {
  const event = heap[one] as Event
  heap[one] = heap[other] as Event
  heap[other] = event
}
