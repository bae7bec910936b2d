/** The package is not in node_modules when the bench runs without its own install. */
export async function load<T>(name: string): Promise<T> {
  return (await import(name)) as T
}
