/** What is in the wallet, and what A and B take out of it. */
export const OPENED_WITH = 1_000
export const CHANGES = { A: -500, B: -300 } as const
export const LEFT_OVER: number = OPENED_WITH + CHANGES.A + CHANGES.B
