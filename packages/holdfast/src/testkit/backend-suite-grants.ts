/** Who is granted a name, what a grant and a refusal say, and that every entry ends by itself. */
import { deepStrictEqual, match, ok, strictEqual } from 'node:assert/strict'
import { TOKEN_MAX } from '../core/token.ts'
import {
  acquired,
  type Check,
  granted,
  isRefused,
  isTaken,
  LONG_MS,
  lapsed,
  request,
  untilGranted,
} from './backend-harness.ts'

export function testGrants(check: Check): void {
  testCapabilities(check)
  testExclusion(check)
  testAnswers(check)
  testRepeats(check)
  testEnd(check)
  testLeftovers(check)
  testClose(check)
}

function testCapabilities(check: Check): void {
  // An engine that relies on a push that never comes waits for nothing.
  check('what the capabilities claim is there', async ({ ours, theirs }) => {
    const { wakeUp, ttlMsMin, ttlMsMax } = ours.capabilities
    deepStrictEqual({ ...theirs.capabilities }, { ...ours.capabilities })
    if (wakeUp === 'push') strictEqual(typeof ours.wakeUp, 'function')
    ok(Number.isSafeInteger(ttlMsMin) && Number.isSafeInteger(ttlMsMax))
    ok(ttlMsMin > 0 && ttlMsMin < ttlMsMax, `${ttlMsMin} to ${ttlMsMax} ms`)
  })
}

function testExclusion(check: Check): void {
  // Two processes that both start the nightly job.
  check('a name that is held is refused to everybody else', async (store) => {
    const { ours, theirs, lockName } = store
    const grant = await acquired(ours, lockName)
    for (const backend of [ours, theirs]) {
      strictEqual((await backend.tryAcquire(request(lockName))).kind, 'held')
    }
    // Refused is not enough: the holder must be left undisturbed.
    strictEqual((await ours.inspect(lockName))?.fencingToken, grant.fencingToken)
    strictEqual(await ours.release(grant, 0), 'released')
  })

  // A check and a write in two requests let two contenders through in between.
  check(
    'of many contenders at once, exactly one is granted',
    async ({ ours, theirs, lockName }) => {
      for (let round = 0; round < 5; round++) {
        const name = `${lockName}:${round}`
        const sides = Array.from({ length: 24 }, (_, index) => (index % 2 === 0 ? ours : theirs))
        const results = await Promise.all(sides.map((side) => side.tryAcquire(request(name))))
        strictEqual(results.filter(({ kind }) => kind === 'granted').length, 1)
      }
    },
  )

  // A refused attempt that leaves a claim behind takes the name later, when nobody waits for it.
  check('a refused attempt leaves nothing behind', async ({ ours, theirs, lockName }) => {
    const grant = await acquired(ours, lockName)
    strictEqual((await theirs.tryAcquire(request(lockName))).kind, 'held')
    strictEqual(await ours.release(grant, 0), 'released')
    strictEqual(await ours.inspect(lockName), null)
    await acquired(ours, lockName)
  })
}

function testAnswers(check: Check): void {
  // A guard that is given another owner's name, or a token as a rounded number, refuses the holder.
  check('a grant names its lock, its owner, its source and a token of 64 bits', async (store) => {
    const { ours, theirs, lockName } = store
    const asked = request(lockName)
    const grant = granted(await ours.tryAcquire(asked))
    strictEqual(grant.lockName, lockName)
    strictEqual(grant.owner, asked.owner)
    strictEqual(typeof grant.fencingToken, 'bigint')
    ok(grant.fencingToken >= 1n && grant.fencingToken <= TOKEN_MAX)
    ok(grant.ttlMs >= LONG_MS * 0.5, `lives ${grant.ttlMs} ms of the ${LONG_MS} asked for`)
    match(grant.source, /^[a-z]+:/)
    await ours.release(grant, 0)
    strictEqual((await acquired(theirs, lockName)).source, grant.source)
  })

  // A life counted from the reply is a round trip too long: time enough for a second holder.
  check('a life counts from before the request left', async (store, skip) => {
    const { ours, lockName, nowMs } = store
    if (ours.capabilities.expiry === 'session') return skip("capabilities.expiry is 'session'")
    await ours.inspect(lockName)
    const beforeMs = nowMs()
    const asking = ours.tryAcquire(request(lockName))
    const askedMs = nowMs()
    const grant = granted(await asking)
    ok(grant.sentAtMs >= beforeMs && grant.sentAtMs <= askedMs, 'of a grant')
    const renewing = ours.renew(grant, LONG_MS)
    const renewAskedMs = nowMs()
    const renewal = await renewing
    if (renewal.kind === 'lost') throw new Error(`lost: ${renewal.reason}`)
    ok(renewal.sentAtMs >= grant.sentAtMs && renewal.sentAtMs <= renewAskedMs, 'of a renewal')
  })

  // "Busy" alone: nobody knows whom to ask, and every contender asks again at once.
  check('a refusal tells who holds the name and when to ask again', async (store) => {
    const { ours, theirs, lockName } = store
    const holder = { host: 'host-of-ours', pid: 4242, label: 'nightly "report"', value: '☃' }
    const { fencingToken } = await acquired(ours, lockName, { holder })
    const refused = await theirs.tryAcquire(request(lockName))
    if (refused.kind !== 'held') throw new Error('granted twice')
    deepStrictEqual({ ...refused.holder }, holder)
    strictEqual(refused.fencingToken ?? fencingToken, fencingToken)
    if (refused.retryAfterMs === null) return
    ok(refused.retryAfterMs > 0, `ask again after ${refused.retryAfterMs} ms`)
    ok(
      refused.retryAfterMs <= LONG_MS + store.roundingMs,
      `ask again after ${refused.retryAfterMs} ms`,
    )
  })

  // Whoever knows the owner can release the lock: it must not stand in any listing or answer.
  check('no answer tells the owner of somebody else', async ({ ours, theirs, lockName }) => {
    const { owner } = await acquired(ours, lockName)
    const answers: unknown[] = [
      await theirs.tryAcquire(request(lockName)),
      await theirs.inspect(lockName),
    ]
    for await (const info of theirs.list(lockName, 10)) answers.push(info)
    const told = JSON.stringify(answers, (_, value) =>
      typeof value === 'bigint' ? `${value}` : value,
    )
    strictEqual(answers.length, 3)
    ok(!told.includes(owner), 'the owner is a secret')
  })
}

function testRepeats(check: Check): void {
  // The first answer was lost: a new token here would turn the holder's own writes stale.
  check('asking again with one owner repeats the grant, token included', async (store) => {
    const { ours, theirs, lockName } = store
    const asked = request(lockName)
    const first = granted(await ours.tryAcquire(asked))
    for (const backend of [ours, theirs]) {
      const again = granted(await backend.tryAcquire(asked))
      strictEqual(again.fencingToken, first.fencingToken)
      strictEqual(again.owner, first.owner)
    }
    strictEqual((await ours.renew(first, LONG_MS)).kind, 'renewed')
    strictEqual(granted(await ours.tryAcquire(asked)).fencingToken, first.fencingToken)
    ok(await isTaken(theirs, lockName))
  })

  // A resent request that lengthens the entry keeps a crashed process's lock alive.
  check('asking again lengthens nothing', async ({ ours, lockName, lapse }) => {
    const asked = request(lockName)
    await ours.tryAcquire(asked)
    await lapse(300)
    const again = granted(await ours.tryAcquire(asked))
    ok(again.ttlMs <= LONG_MS - 250, `lives ${again.ttlMs} ms from the second request on`)
    const remainingMs = (await ours.inspect(lockName))?.remainingMs ?? 0
    ok(remainingMs <= LONG_MS - 250, `${remainingMs} ms remain`)
  })

  // After its end the same owner is one more contender, at most: never a second holder.
  check('an owner whose entry ended is not let in beside the next holder', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const asked = request(lockName, { ttlMs })
    await lapsed(store, granted(await ours.tryAcquire(asked)))
    const next = await untilGranted(store, theirs, lockName)
    ok(await isRefused(ours, asked))
    strictEqual((await ours.inspect(lockName))?.fencingToken, next.fencingToken)
  })
}

function testEnd(check: Check): void {
  // A crashed holder must not hold for ever, nor a living one lose its lock early.
  check('an entry ends by itself, and not before its time', async (store) => {
    const { ours, theirs, lockName, ttlMs, nowMs } = store
    const grant = await acquired(ours, lockName, { ttlMs })
    await untilGranted(store, theirs, lockName)
    const heldMs = nowMs() - grant.sentAtMs
    ok(
      heldMs >= grant.ttlMs - store.roundingMs,
      `granted again after ${heldMs} of ${grant.ttlMs} ms`,
    )
  })

  // A crowd of workers died at once: the operator would revoke locks that nobody holds, and the
  // first new contenders would be refused by the dead.
  check('ended entries are seen nowhere and stand in nobody’s way', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const names = Array.from({ length: 30 }, (_, index) => `${lockName}:${index}`)
    let last = await acquired(ours, lockName, { ttlMs })
    for (const name of names) last = await acquired(ours, name, { ttlMs })
    await lapsed(store, last)
    // A session may take a round of the store to end; an entry with a time of its own may not.
    if (ours.capabilities.expiry === 'session') await untilGranted(store, ours, last.lockName)
    else await acquired(theirs, last.lockName)
    const found: string[] = []
    for await (const info of theirs.list(lockName, 100)) found.push(info.lockName)
    deepStrictEqual(found, [last.lockName])
    for (const name of names.slice(0, -1)) strictEqual(await theirs.inspect(name), null)
  })
}

function testLeftovers(check: Check): void {
  // Marks, tombstones and rests of a year of crashes: what has no end of its own fills the store.
  // The harness looks into the store after each check, where it can; here much is left in it.
  check('whatever is left behind ends by itself', async (store) => {
    const { ours, theirs, lockName } = store
    const crashed = await acquired(ours, lockName)
    for (const side of [theirs, ours, theirs]) {
      strictEqual((await side.tryAcquire(request(lockName, { waits: true }))).kind, 'held')
    }
    strictEqual(await ours.proclaim(crashed, 'gone soon'), 'proclaimed')
    const resting = await acquired(ours, `${lockName}:rests`)
    strictEqual(await ours.release(resting, LONG_MS), 'released')
    await ours.cancel(lockName, request(lockName).owner)
    const { fencingToken } = await acquired(ours, `${lockName}:taken`)
    const reason = 'suite'
    ok(await theirs.revoke(request(`${lockName}:taken`), { fencingToken, reason }))
    const passed = await acquired(ours, `${lockName}:passed`)
    await ours.handOver?.(passed, request(`${lockName}:passed`), true)
    for (const name of ['', ':taken', ':passed']) {
      const remainingMs = (await theirs.inspect(`${lockName}${name}`))?.remainingMs ?? 0
      ok(remainingMs <= LONG_MS + store.roundingMs, `${remainingMs} ms remain`)
    }
  })
}

function testClose(check: Check): void {
  // One part of a program ends its backend while others go on with the same store, and a shutdown
  // that is run twice must not fail.
  check(
    'close ends no lock of others, nor one that is still held, and may be repeated',
    async (store, skip) => {
      const { ours, theirs, lockName } = store
      if (ours.capabilities.expiry === 'session') return skip("capabilities.expiry is 'session'")
      const kept = await acquired(ours, lockName)
      const other = await acquired(theirs, `${lockName}:other`)
      await ours.close()
      await ours.close()
      strictEqual((await theirs.inspect(lockName))?.fencingToken, kept.fencingToken)
      strictEqual((await theirs.renew(other, LONG_MS)).kind, 'renewed')
      strictEqual(await theirs.release(other, 0), 'released')
    },
  )
}
