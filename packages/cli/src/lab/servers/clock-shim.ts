/**
 * A wall clock that can be set for one server, by a library that is loaded before its own. The
 * monotonic clock is left alone. Made on the spot by the C compiler of the machine.
 */
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { makePreload, whyNoPreload } from './preload.ts'
import { createServerFolder, removeServerFolder } from './run-folder.ts'

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

/** In one line, why this machine cannot make one, or null where it can. */
export function whyNoClockShim(): string | null {
  return whyNoPreload('the clock of a server can be set')
}

export interface ClockShim {
  /** For the server whose clock it is. */
  readonly env: Readonly<Record<string, string>>
  /** Steps the wall clock, at once, also of a server that runs; 0 is the machine's. */
  setOffset(ms: number): void
  /** Removes its folder: after the end of its server. */
  remove(): void
}

export function makeClockShim(): ClockShim {
  const folder = createServerFolder('clock')
  const library = makePreload(folder, 'clock', SHIM)
  const offsetFile = join(folder, 'offset')
  writeFileSync(offsetFile, Buffer.alloc(8))
  return {
    env: { CLOCK_OFFSET_FILE: offsetFile, LD_PRELOAD: library },
    setOffset: (ms) => {
      const bytes = Buffer.alloc(8)
      bytes.writeBigInt64LE(BigInt(ms) * 1000n)
      // Not truncated first: the server reads it all the time.
      const file = openSync(offsetFile, 'r+')
      writeSync(file, bytes, 0, 8, 0)
      closeSync(file)
    },
    remove: () => removeServerFolder(folder),
  }
}
