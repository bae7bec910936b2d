/**
 * Child processes and signals: what ends this script ends them, and they end first.
 *
 * A signal to this script is passed on to the running children. Ctrl-C on a terminal, and the
 * terminal's end, reach every process of the foreground group by themselves; passing these on as
 * well would be a second Ctrl-C, which programs take for "at once".
 *
 * SIGTERM to npm never arrives here: npm passes it to the shell that it started for the script,
 * which dies of it and leaves its child behind. So the end of the parent counts as SIGTERM where
 * npm is the one who started us.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { createInterface } from 'node:readline'
import { SetupError } from './setup-error.mjs'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
const PARENT_POLL_MS = 250
/** For what is in a pipe when the program that wrote it has ended. */
const LAST_LINES_MS = 2000
const running = new Set()
let endedBy = null

/**
 * Starts a program whose end this script waits for.
 *
 * @throws {SetupError} after a signal: what goes on beside the program that it ended starts nothing more.
 */
export function spawnChild(command, args, options) {
  if (isSignalled()) throw new SetupError(`${command} is not started: ${endedBy} ends this script`)
  listen()
  const child = spawn(command, args, options)
  running.add(child)
  const forget = () => running.delete(child)
  child.once('exit', forget)
  child.once('error', forget)
  return child
}

/** Runs a program on our own stdin, stdout and stderr. @returns its exit code. */
export function runInForeground(command, args, { cwd, env }) {
  return new Promise((resolve, reject) => {
    const child = spawnChild(command, args, { cwd, env, stdio: 'inherit' })
    child.once('error', (error) => reject(new SetupError(`${command}: ${error.message}`)))
    child.once('exit', (code, signal) => resolve(code ?? exitCodeOf(signal)))
  })
}

/**
 * Like {@link runInForeground} for one of several programs at once: without stdin, and with the name
 * before each line of what it says, on our own stdout.
 */
export function runBeside(name, command, args, { cwd, env }) {
  return new Promise((resolve, reject) => {
    const child = spawnChild(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => process.stdout.write(`${name} | ${line}\n`))
    }
    child.once('error', (error) => reject(new SetupError(`${command}: ${error.message}`)))
    child.once('exit', (code, signal) => {
      const over = () => resolve(code ?? exitCodeOf(signal))
      child.once('close', over)
      // What it has left behind may hold its output open for ever.
      setTimeout(over, LAST_LINES_MS)
    })
  })
}

/** Whether a signal asked this script to end. */
export function isSignalled() {
  return endedBy !== null
}

/**
 * Ends this script if a signal asked for it; call it when a step's child has ended. While another
 * child still runs, that one's end is waited for.
 */
export function exitIfSignalled() {
  if (isSignalled() && running.size === 0) process.exit(exitCodeOf(endedBy))
}

function exitCodeOf(signal) {
  return 128 + (constants.signals[signal] ?? 0)
}

function listen() {
  if (process.listenerCount('SIGTERM') > 0) return
  for (const signal of SIGNALS) process.on(signal, () => end(signal))
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    // After a Ctrl-C npm is gone first, while the lab still finishes in order.
    if (endedBy === null) end('SIGTERM')
  }, PARENT_POLL_MS)
  watch.unref()
}

function end(signal) {
  endedBy = signal
  if (running.size === 0) exitIfSignalled()
  if (reachesGroup(signal)) return
  for (const child of running) child.kill(signal)
}

function reachesGroup(signal) {
  return signal !== 'SIGTERM' && isForeground()
}

/** True when our process group is the one that the terminal's keys go to; proc(5), fields 5 and 8. */
function isForeground() {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[2] === fields[5]
  } catch {
    return process.stderr.isTTY === true
  }
}
