/** A redis-server whose wall clock a test can set, by a library that is loaded before its own. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findPrograms } from '../../../cli/src/lab/servers/index.ts'
import { openInspector, until } from './redis.ts'

/**
 * Adds microseconds, read from a mapped file, to the wall clock. System calls only: a call of the C
 * library's own clock, or of malloc, from here would not end.
 */
const SHIM = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *offset;
int clock_gettime(clockid_t id, struct timespec *at) {
  int failed = syscall(SYS_clock_gettime, id, at);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  if (!offset) {
    int file = open(getenv("CLOCK_OFFSET_FILE"), O_RDONLY);
    offset = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  long long us = at->tv_sec * 1000000LL + at->tv_nsec / 1000 + *offset;
  at->tv_sec = us / 1000000;
  at->tv_nsec = us % 1000000 * 1000;
  return 0;
}
int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return failed;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
`

/** Why this machine cannot make such a server, or null where it can. */
export function whyNoClockShim(): string | null {
  if (process.platform !== 'linux') return 'the clock of a server can be set on Linux only'
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' })
    return null
  } catch {
    // Said by the tests that need it.
    return 'there is no C compiler (cc) in PATH'
  }
}

export interface ClockedRedis {
  readonly port: number
  /** Steps the wall clock of the server; 0 is the machine's. */
  setOffset(ms: number): void
  /** Ends it, and starts it empty on the same port with the same clock. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export async function startClockedRedis(): Promise<ClockedRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-clock-'))
  const library = join(folder, 'clock.so')
  const offsetFile = join(folder, 'offset')
  writeFileSync(join(folder, 'clock.c'), SHIM)
  writeFileSync(offsetFile, Buffer.alloc(8))
  execFileSync('cc', ['-O1', '-fPIC', '-shared', '-o', library, join(folder, 'clock.c')])
  const port = await freePort()
  const environment = { CLOCK_OFFSET_FILE: offsetFile, LD_PRELOAD: library }
  let child = await start(port, folder, environment)
  const kill = async (): Promise<void> => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  return {
    port,
    setOffset(ms) {
      const bytes = Buffer.alloc(8)
      bytes.writeBigInt64LE(BigInt(ms) * 1000n)
      // Not truncated first: the server reads it all the time.
      const file = openSync(offsetFile, 'r+')
      writeSync(file, bytes, 0, 8, 0)
      closeSync(file)
    },
    async restart() {
      await kill()
      child = await start(port, folder, environment)
    },
    async stop() {
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function start(
  port: number,
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<ChildProcess> {
  const programs = findPrograms('redis')
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn(join(programs.folder, 'redis-server'), [...args, '--dir', folder], {
    env: { LC_ALL: 'C', LD_LIBRARY_PATH: programs.libraryPath, ...environment },
    stdio: 'ignore',
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const inspector = await openInspector(port)
  await until(async () => (await inspector.ping()) === 'PONG', 'the server answers')
  inspector.disconnect()
  return child
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
