/** An expected failure: its message is for the user, its stack is not. */
export class SetupError extends Error {
  name = 'SetupError'
}
