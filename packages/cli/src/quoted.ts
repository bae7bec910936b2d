/** Arguments as messages may repeat them: whatever may be a password is left out. */

const WITHHELD = '(withheld)'
/** In a place where a port would be, a password may stand whose "@" was forgotten. */
const HOST = String.raw`(?:[\w.-]*|\[[0-9A-Fa-f:.]*\])(?::\d{0,5})?`
const HOSTS = new RegExp(`^${HOST}(?:,${HOST})*(?:/\\d*)?$`)

/** Name, scheme and hosts of a node as it was written. */
export function quoted(text: string): string {
  const [head = ''] = /^(?:[^=@/]*=)?(?:[a-z][a-z+.-]*:\/\/)?/i.exec(text) ?? []
  const parts = text.slice(head.length).split('@')
  const hosts = parts.pop() ?? ''
  const user = parts.length > 0 ? `${WITHHELD}@` : ''
  return `'${head}${user}${HOSTS.test(hosts) ? hosts : WITHHELD}'`
}

/** A message of the parser of command lines, which repeats what it does not know. */
export function withoutSecrets(message: string): string {
  return message
    .replace(/:\/\/.*@/g, `://${WITHHELD}@`)
    .replace(/(unknown option '[^'=]*=)[^\n]*'/, `$1${WITHHELD}'`)
}
