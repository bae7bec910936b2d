/**
 * First in, first out, with cheap leaving at any place: each link knows its neighbours.
 *
 * An array moves everybody up when one leaves at the front, and a Map or Set steps over all who have left
 * to find the first: with ten thousand who wait, the last would have waited for fifty million steps.
 */
export interface Link<T> {
  previous: T | null
  next: T | null
}

/** What is in one chain is in no other one. */
export class Chain<T extends Link<T>> {
  first: T | null = null
  last: T | null = null
  count = 0

  append(link: T): void {
    link.previous = this.last
    if (this.last) this.last.next = link
    else this.first = link
    this.last = link
    this.count += 1
  }

  prepend(link: T): void {
    link.next = this.first
    if (this.first) this.first.previous = link
    else this.last = link
    this.first = link
    this.count += 1
  }

  /** Does nothing for a link that is not in the chain. */
  remove(link: T): void {
    const { previous, next } = link
    if (previous === null && this.first !== link) return
    if (previous) previous.next = next
    else this.first = next
    if (next) next.previous = previous
    else this.last = previous
    link.previous = link.next = null
    this.count -= 1
  }
}
