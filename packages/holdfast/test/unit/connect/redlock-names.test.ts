/** The command for operators has to call nodes what programs call them: the names are the set. */
import { expect, test } from 'vitest'
import { readNodeUrls } from '../../../../cli/src/redlock/node-urls.ts'
import { readRedlockTarget } from '../../../src/connect/redlock-target.ts'
import { splitUrl } from '../../../src/connect/url.ts'

test.each(['redlock://Host,[::1]:7000,10.0.0.1:06379', 'redlock+tls://u:p%40@a:1,b:2,c/3'])(
  '%s is the nodes that connect makes of it',
  (text) => {
    const parts = splitUrl(text, ['redlock', 'redlock+tls'])
    const { nodes } = readRedlockTarget(parts.scheme === 'redlock+tls', parts, {})
    expect(readNodeUrls([text], {})).toEqual(
      nodes.map(({ name, addresses: [address], credentials, db, tls }) => ({
        ...{ name, db, isTls: tls !== null },
        ...{ host: address?.host, port: address?.port },
        ...{ username: credentials?.username ?? '', password: credentials?.password ?? '' },
      })),
    )
  },
)
