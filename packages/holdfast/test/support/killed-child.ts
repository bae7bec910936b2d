/**
 * The program of a process that works on locks until it is killed: cycles of everything that writes,
 * over few names, so that several of them meet. It stands beside a compiled library in `dist`. When
 * as many scripts have been answered as its argument says, it says so.
 *
 * With a client of its own, because loading one of the supported ones takes longer than all else
 * that it does in its short life.
 */
export function killedChildText(port: number): string {
  return `
import { connect } from 'node:net'
import { redisBackend } from './dist/redis.js'
import { randomOwner } from './dist/core/owner.js'
const socket = connect(${port}, '127.0.0.1')
${CLIENT}
${WORK}`
}

/** RESP 2; everything is ASCII here, so characters are bytes. */
const CLIENT = `
socket.setNoDelay(true)
const wanted = Number(process.argv[2])
let answered = 0
const waiting = []
let rest = ''
// Everything is ASCII here, so characters are bytes.
socket.setEncoding('latin1')
socket.on('data', (chunk) => {
  rest += chunk
  for (;;) {
    const read = parse(0)
    if (read === null) return
    rest = rest.slice(read.next)
    const { resolve, reject } = waiting.shift()
    if (read.value instanceof Error) reject(read.value)
    else resolve(read.value)
  }
})
function parse(at) {
  const end = rest.indexOf('\\r\\n', at)
  if (end < 0) return null
  const line = rest.slice(at + 1, end)
  const next = end + 2
  if (rest[at] === ':') return { value: Number(line), next }
  if (rest[at] === '+') return { value: line, next }
  if (rest[at] === '-') return { value: new Error(line), next }
  const count = Number(line)
  if (count < 0) return { value: null, next }
  if (rest[at] === '$') {
    if (rest.length < next + count + 2) return null
    return { value: rest.slice(next, next + count), next: next + count + 2 }
  }
  const value = []
  let from = next
  for (let index = 0; index < count; index++) {
    const read = parse(from)
    if (read === null) return null
    value.push(read.value)
    from = read.next
  }
  return { value, next: from }
}
const send = (...parts) => new Promise((resolve, reject) => {
  waiting.push({ resolve, reject })
  const text = parts.map((part) => '$' + String(part).length + '\\r\\n' + part + '\\r\\n').join('')
  socket.write('*' + parts.length + '\\r\\n' + text)
})
const client = {
  eval: (script, ...rest) => send('EVAL', script, ...rest),
  evalsha: async (sha1, ...rest) => {
    const reply = await send('EVALSHA', sha1, ...rest)
    answered += 1
    if (answered === wanted) process.send('worked')
    return reply
  },
}
`

const WORK = `
const backend = redisBackend(client)
const request = (index) => ({
  lockName: 'n' + (index % 3), owner: randomOwner(), ttlMs: 1000, timeoutMs: 1000, lockDelayMs: 0,
  waits: index % 2 === 0, waiter: 'w' + process.pid, holder: { host: 'h', pid: process.pid },
  onLost() {},
})
for (let index = 0; ; index++) {
  const asked = request(index)
  const { lockName, owner } = asked
  const result = await backend.tryAcquire(asked)
  if (result.kind === 'held') {
    if (index % 7 === 0) await backend.cancel(lockName, owner)
    continue
  }
  await backend.renew(result.grant, 1000)
  if (index % 5 === 0) await backend.proclaim(result.grant, 'v' + index)
  const next = { ...request(index), lockName }
  if (index % 4 === 0) await backend.handOver(result.grant, next, true)
  else if (index % 4 === 1) await backend.release(result.grant, 20)
  else if (index % 4 === 2) await backend.cancel(lockName, owner)
  else await backend.release(result.grant, 0)
}
`
