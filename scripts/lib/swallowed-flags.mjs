/**
 * `npm run lab --json` does not hand `--json` to the lab: npm takes every flag before `--` for
 * itself and only leaves `npm_config_json=true` in the environment. The run would be another one
 * than was asked for, and look right. So it is refused, with the form that works.
 */

/** Flags of each command that somebody may forget the `--` before. */
const FLAGS = {
  lab: [
    ...['json', 'rounds', 'seed', 'full', 'quick', 'pause', 'lanes', 'history', 'record'],
    'embedded',
  ],
  bench: ['quick', 'json', 'only', 'peers', 'runs', 'seconds'],
  sim: [
    ...['schedules', 'scenario', 'seed', 'jobs', 'mutants', 'model', 'variant', 'large'],
    'json',
  ],
  test: ['other-nodes', 'project', 'reporter', 'bail', 'coverage', 'watch', 'run', 't'],
  build: [],
}

/** @returns what to tell the user, or null when nothing was swallowed. */
export function swallowedFlags(command, args, env) {
  // Set by npm for the script that it runs: without it the variables are not from this command.
  if (env.npm_lifecycle_event !== command) return null
  const taken = []
  let rest = args
  for (const name of FLAGS[command]) {
    const value = env[`npm_config_${name.replaceAll('-', '_')}`]
    if (value === undefined) continue
    if (value === '') taken.push(`--no-${name}`)
    else if (value !== 'true') taken.push(`--${name}`, value)
    else {
      taken.push(`--${name}`)
      // `--rounds 20` before the `--`: npm took the flag and left its value among the arguments.
      if (TAKES_VALUE.has(name)) {
        // A number goes to a flag that takes one, whatever else was asked for before or after it.
        const at = NUMBERS.has(name) ? rest.findIndex((word) => /^[\d.]+$/.test(word)) : 0
        if (at >= 0 && at < rest.length) taken.push(rest[at])
        rest = rest.filter((_, index) => index !== at)
      }
    }
  }
  if (taken.length === 0) return null
  const npmCommand = command === 'test' ? 'npm test' : `npm run -s ${command}`
  return (
    `npm took ${taken.filter((word) => word.startsWith('--')).join(', ')} for itself. ` +
    `Write: ${[npmCommand, '--', ...rest, ...taken].join(' ')}`
  )
}

const NUMBERS = new Set(['rounds', 'seed', 'schedules', 'jobs', 'lanes', 'runs', 'seconds'])
const TAKES_VALUE = new Set([
  ...NUMBERS,
  'only',
  'pause',
  'project',
  'reporter',
  'scenario',
  't',
  'variant',
  'history',
  'record',
])
