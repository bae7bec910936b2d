import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { checkFileSystem, refusedFileSystem } from '../../../src/backends/sqlite/file-systems.ts'
import { isDead, thisHost } from '../../../src/backends/sqlite/host.ts'
import { checkOneName } from '../../../src/backends/sqlite/one-name.ts'

const host = thisHost()
const { pid, startedAt, pidNamespace } = host

it('this process lives, and one of its pid that began at another time does not', () => {
  expect(isDead(host, host)).toBe(false)
  expect(isDead(host, { pid, startedAt: `${Number(startedAt) - 1}`, pidNamespace })).toBe(true)
  // Nothing is known of when it began.
  expect(isDead(host, { pid, startedAt: '', pidNamespace })).toBe(false)
})

it('a process that has ended is dead, and one of another pid namespace may live', () => {
  const ended = Number(execFileSync('sh', ['-c', 'echo $$'], { encoding: 'utf8' }))
  expect(isDead(host, { pid: ended, startedAt: '1', pidNamespace })).toBe(true)
  expect(isDead(host, { pid: ended, startedAt: '1', pidNamespace: 'pid:[1]' })).toBe(false)
  expect(isDead(host, { pid: ended, startedAt: '1', pidNamespace: '' })).toBe(false)
})

// Killed, but its parent has not asked for it: it has a pid still, and never asks for a lock again.
it('a zombie is dead', async () => {
  const text = 'exec 3<&0; (read line <&3) & echo $!; exec sleep 20'
  const parent = spawn('sh', ['-c', text], { stdio: ['pipe', 'pipe', 'ignore'] })
  onTestFinished(() => void parent.kill('SIGKILL'))
  const [line] = await once(parent.stdout, 'data')
  // A shell asks for a child that ends before its own program is another one.
  const program = (): string => readFileSync(`/proc/${parent.pid}/comm`, 'utf8')
  for (let tries = 0; tries < 200 && program() !== 'sleep\n'; tries++) await sleep(50)
  expect(program()).toBe('sleep\n')
  parent.stdin.end('\n')
  const zombie = { pid: Number(line), startedAt: '', pidNamespace }
  for (let tries = 0; tries < 200 && !isDead(host, zombie); tries++) await sleep(50)
  expect(isDead(host, zombie)).toBe(true)
  expect(() => process.kill(zombie.pid, 0)).not.toThrow()
})

it('file systems that other hosts may share are refused by their type, disks are not', async () => {
  const refused = [0x6969, 0xff534d42 | 0, 0x65735546, 0x00c36400, 0x01021997]
  for (const type of refused) {
    expect(refusedFileSystem(type)).not.toBeNull()
    await expect(checkFileSystem('/mnt/locks.db', async () => type)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      option: 'database',
      value: '/mnt/locks.db',
    })
  }
  // ext4, XFS, Btrfs, tmpfs, overlay, ZFS.
  for (const type of [0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1]) {
    expect(refusedFileSystem(type)).toBeNull()
  }
  await expect(checkFileSystem('/nowhere/at/all')).rejects.toMatchObject({ why: 'down' })
  await checkFileSystem(process.cwd())
})

// Two containers that mount the file alone have a log each beside it, and both granted the same name.
it('a file that is mounted by itself is refused, one in a mounted folder is not', async () => {
  const path = fileURLToPath(import.meta.url)
  const line = (point: string) => `63 43 254:0 /a /${point} rw,relatime - ext4 /dev/vda rw\n`
  const mounts = (point: string) => async () => line('proc') + line(point.slice(1)) + line('sys')
  const refused = { code: 'INVALID_ARGUMENT', option: 'database' }
  await expect(checkOneName(path, mounts(path))).rejects.toMatchObject(refused)
  await checkOneName(path, mounts(dirname(path)))
  await checkOneName(path)
  const folder = mkdtempSync(join(tmpdir(), 'holdfast one name-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const spaced = join(folder, 'locks.db')
  writeFileSync(spaced, '')
  const escaped = spaced.replaceAll(' ', '\\040')
  await expect(checkOneName(spaced, mounts(escaped))).rejects.toMatchObject(refused)
  rmSync(spaced)
  await expect(checkOneName(spaced)).rejects.toMatchObject({ why: 'down' })
})
