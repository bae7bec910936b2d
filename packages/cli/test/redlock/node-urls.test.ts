import { expect, test } from 'vitest'
import { readNodeUrls } from '../../src/redlock/node-urls.ts'

const ENV = { HOLDFAST_REDIS_USERNAME: 'operator', HOLDFAST_REDIS_PASSWORD: 'of the environment' }
const PLAIN = { name: 'a', host: 'h', port: 6379, db: 0, isTls: false, username: '', password: '' }

test.each<[text: string, env: Record<string, string>, differs: object]>([
  ['a=redis://h', {}, {}],
  ['a=redis://h:7000/3', {}, { port: 7000, db: 3 }],
  ['a=redis://h/', {}, {}],
  ['a=rediss://h', {}, { isTls: true }],
  ['a=redis://[::1]:7000', {}, { host: '::1', port: 7000 }],
  ['a=redis://u:p%40%2F%25@h', {}, { username: 'u', password: 'p@/%' }],
  ['a=redis://h', ENV, { username: 'operator', password: 'of the environment' }],
  // The accident: connect calls a node so, and the command did not take the name.
  ['127.0.0.1:7000=redis://h', {}, { name: '127.0.0.1:7000' }],
  ['[::1]:7000=rediss://h', {}, { name: '[::1]:7000', isTls: true }],
  ['eu/a=b@c=redis://h', {}, { name: 'eu/a=b@c' }],
  ['a=redis://:x%3Dredis@h', {}, { password: 'x=redis' }],
  // A password is one of somebody: whose, the URL says, or it is that of the default user.
  ['a=redis://:p@h', ENV, { username: '', password: 'p' }],
  ['a=redis://u@h', ENV, { username: 'u', password: 'of the environment' }],
  ['a=redis://u:p@h', ENV, { username: 'u', password: 'p' }],
])('%s is read', (text, env, differs) => {
  expect(readNodeUrls([text], env)).toEqual([{ ...PLAIN, ...differs }])
})

test.each([
  ['a=redis://:secret%zz@h', 'has a % that does not stand before two hexadecimal digits'],
  ['a=redis://:sec/ret@h', 'in passwords / is %2F'],
  ['a=redis://', 'has no host'],
  ['a=redis://h/1234567', 'goes on with something else'],
  ['redis://:secret@h', "'redis://(withheld)@h' is not of the form name=redis://host:port"],
  ['u:secret@h:1=redis://h', 'is not of the form'],
  ['redis://:secret@h=redis://h', 'is not of the form'],
  ['h:secret', "'(withheld)' is not of the form"],
  ['h:7000', "'h:7000' is not of the form"],
  ['a=http://:secret@h', "does not begin with redis:// or rediss://: 'a=http://(withheld)@h'"],
  ['redlock://:secret@h,i,h', "node 'h:6379' is given twice"],
  ['redlock://:sec/ret@h,i', 'in passwords / is %2F'],
  ['redlock://:secret@h,', 'has a host that is not of the form host:port'],
  ['redlock://h:secret,i', "'redlock://(withheld)' has a host"],
  ['redlock://h:65536,i', 'has a host'],
  ['redlock://:secret@h,i?keyPrefix=a', 'the key prefix is said by --prefix'],
  [`redlock://${'h'.repeat(60)},i`, 'of more than 64 characters'],
  ['a=redis://h#1', 'has more than a host, a port and a number'],
])('%s is an error that has none of it', (text, words) => {
  const failure = (): unknown => readNodeUrls([text], {})
  expect(failure).toThrow(words)
  expect(failure).not.toThrow(/sec/)
})

test('a URL of all nodes stands alone', () => {
  expect(() => readNodeUrls(['a=redis://h', 'redlock://:secret@h,i'], {})).toThrow(
    "'redlock://(withheld)@h,i' stands for all nodes",
  )
})
