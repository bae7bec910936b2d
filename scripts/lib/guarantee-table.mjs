/**
 * The table of what each backend guarantees, made from what the backends say of themselves.
 *
 * A page has it between `<!-- guarantees -->` and `<!-- /guarantees -->`; `node scripts/guarantees.mjs`
 * puts it in anew, and a test fails while a page differs.
 */

const BEGIN = '<!-- guarantees -->\n'
const END = '<!-- /guarantees -->'
const CAPABILITIES = ['scope', 'fencing', 'expiry', 'lossNotice', 'order', 'wakeUp']

/**
 * Real backends, none of which is asked for a lock: no client connects.
 *
 * @param library What of `holdfast` is called, so that sources and build can be asked alike.
 * @param client A client of ioredis that is not connected.
 * @param database An open database in a file; null leaves SQLite out.
 */
export function guaranteeRows(library, client, database) {
  const { memoryBackend, redisBackend, redlockBackend, etcdBackend, sqliteBackend } = library
  const row = (backend, urls, page, { capabilities }) => ({ backend, urls, page, capabilities })
  const rows = [
    row('memoryBackend()', ['memory:'], 'memory', memoryBackend()),
    row('redisBackend(client)', ['redis:', 'redis+…:'], 'redis', redisBackend(client)),
    row(
      'redisBackend(client, { subscriber: false })',
      [],
      null,
      redisBackend(client, { subscriber: false }),
    ),
    row(
      'redlockBackend(nodes)',
      ['redlock:', 'redlock+tls:'],
      'redlock',
      redlockBackend({ a: client }),
    ),
    row(
      'etcdBackend(options)',
      ['etcd:', 'etcd+tls:'],
      'etcd',
      etcdBackend({ endpoints: ['127.0.0.1:2379'] }),
    ),
  ]
  if (database === null) return rows
  return [
    ...rows,
    row('sqliteBackend(database)', ['sqlite:'], 'sqlite', sqliteBackend(database)),
    row(
      "sqliteBackend(database, { synchronous: 'normal' })",
      ['sqlite:…?synchronous=normal'],
      null,
      sqliteBackend(database, { synchronous: 'normal' }),
    ),
  ]
}

/** @param path Of the page, from the root: links are relative to it. */
export function guaranteeTable(rows, path) {
  const folder = path.startsWith('docs/') ? 'backends/' : 'docs/backends/'
  const titles = ['backend', '`connect` with', ...CAPABILITIES, 'TTL in ms']
  const lines = [titles, titles.map(() => '---'), ...rows.map((row) => cells(row, folder))]
  return lines.map((line) => `| ${line.join(' | ')} |\n`).join('')
}

function cells({ backend, urls, page, capabilities }, folder) {
  const code = `\`${backend}\``
  const thousands = (value) => value.toLocaleString('en-US')
  return [
    page === null ? code : `[${code}](${folder}${page}.md)`,
    urls.map((url) => `\`${url}\``).join(', '),
    ...CAPABILITIES.map((name) => capabilities[name]),
    `${thousands(capabilities.ttlMsMin)} to ${thousands(capabilities.ttlMsMax)}`,
  ]
}

/** The page with its table put in anew; a page without the marks stays as it is. */
export function withGuarantees(page, path, rows) {
  const begin = page.indexOf(BEGIN)
  const end = page.indexOf(END, begin)
  if (begin < 0 && !page.includes(END)) return page
  if (begin < 0 || end < 0) throw new Error(`${path}: a mark of the table of guarantees is missing`)
  return page.slice(0, begin + BEGIN.length) + guaranteeTable(rows, path) + page.slice(end)
}
