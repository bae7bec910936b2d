/** Calls what answers by a promise. What throws, or returns no promise at all, is made to answer by one. */
export function started<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return Promise.resolve(ask())
  } catch (error) {
    return Promise.reject(error)
  }
}
