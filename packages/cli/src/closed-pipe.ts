/**
 * Somebody read the first lines and went away (`| head`). That is no error of ours, and nobody
 * is left to tell; the exit code is the one of a program that SIGPIPE ended.
 */
export function endOnClosedPipe(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(141)
  })
}
