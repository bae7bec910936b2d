import { execFileSync, spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { childEnv } from '../lib/npm-env.mjs'
import { swallowedFlags } from '../lib/swallowed-flags.mjs'
import { createFolder, SCRIPTS, watch } from './helpers.mjs'

const inLab = { npm_lifecycle_event: 'lab' }

describe('a flag before the --', () => {
  it.each([
    ['--json', [], { npm_config_json: 'true' }, '-- --json'],
    ['--embedded', ['pause'], { npm_config_embedded: 'true' }, '-- pause --embedded'],
    ['--rounds=20', ['pause'], { npm_config_rounds: '20' }, '-- pause --rounds 20'],
    // npm leaves the value of `--rounds 20` among the arguments.
    ['--rounds 20', ['20', 'pause'], { npm_config_rounds: 'true' }, '-- pause --rounds 20'],
    // The other way round the value stands behind the scenario.
    ['--rounds 20', ['pause', '20'], { npm_config_rounds: 'true' }, '-- pause --rounds 20'],
    [
      '--full --seed=3',
      [],
      { npm_config_full: 'true', npm_config_seed: '3' },
      '-- --seed 3 --full',
    ],
  ])('is refused with the right form: %s', (_, args, env, form) => {
    expect(swallowedFlags('lab', args, { ...inLab, ...env })).toContain(`npm run -s lab ${form}`)
  })

  it('is refused for the simulation too, whose values stay behind', () => {
    const env = { npm_lifecycle_event: 'sim', npm_config_json: 'true', npm_config_seed: 'true' }

    expect(swallowedFlags('sim', ['7'], env)).toMatch(
      /npm run -s sim -- (--seed 7 --json|--json --seed 7)$/,
    )
  })

  it('is refused for the tests too', () => {
    const env = { npm_lifecycle_event: 'test', npm_config_other_nodes: '' }

    expect(swallowedFlags('test', [], env)).toContain('npm test -- --no-other-nodes')
  })

  it.each([
    ['--quick', [], { npm_config_quick: 'true' }, '-- --quick'],
    ['--no-peers', [], { npm_config_peers: '' }, '-- --no-peers'],
    ['--seconds 0.5', ['0.5'], { npm_config_seconds: 'true' }, '-- --seconds 0.5'],
    ['--only', ['one-in-flight'], { npm_config_only: 'true' }, '-- --only one-in-flight'],
  ])('is refused for the bench too: %s', (_, args, env, form) => {
    const inBench = { npm_lifecycle_event: 'bench' }
    expect(swallowedFlags('bench', args, { ...inBench, ...env })).toContain(
      `npm run -s bench ${form}`,
    )
  })

  // The accident: an option is added, and nobody thinks of the `--` that is forgotten before it.
  it.each([
    ['lab', 'packages/cli/dist/lab/main.js', ['--rounds <n>', '--record <file.md>', '--json']],
    ['bench', 'bench/dist/main.js', ['--only <group>', '--no-peers', '--runs <n>']],
    ['sim', 'packages/holdfast/dist/sim/cli.js', ['--jobs n', '--variant v', '--large']],
  ])('is known whichever option of %s it is, with its value', (command, program, some) => {
    const path = join(SCRIPTS, '..', program)
    const usage = execFileSync(process.execPath, [path, '--help'], { encoding: 'utf8' })
    const options = [...usage.matchAll(/^ {2}(--(?:no-)?([\w-]+)(?: (<\S+>|\w))?) {2,}/gm)]
    expect(options.map(([, form]) => form)).toEqual(expect.arrayContaining(some))
    for (const [, form, name, value] of options.filter(([, , one]) => one !== 'help')) {
      const taken = { [`npm_config_${name}`]: form.startsWith('--no-') ? '' : 'true' }
      const env = { npm_lifecycle_event: command, ...taken }
      const wanted = value === undefined ? form : `--${name} 7`
      expect(swallowedFlags(command, value === undefined ? [] : ['7'], env)).toMatch(
        new RegExp(`npm run -s ${command} -- ${wanted}$`),
      )
    }
  })

  it('is not seen where there is none', () => {
    expect(
      swallowedFlags('lab', ['--json'], { ...inLab, npm_config_loglevel: 'silent' }),
    ).toBeNull()
    // A nested `node scripts/run.mjs` of another npm script.
    expect(
      swallowedFlags('lab', [], { npm_lifecycle_event: 'test', npm_config_json: 'true' }),
    ).toBeNull()
  })
})

describe('npm itself', () => {
  let folder

  beforeAll(() => {
    folder = createFolder()
    const scripts = { lab: `node ${JSON.stringify(join(SCRIPTS, 'run.mjs'))} lab` }
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, scripts }))
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  // The run would be another one than was asked for, and look right.
  it('swallows the flag, and the run is refused with exit code 2 before anything is set up', async () => {
    const child = spawn('npm', ['run', '-s', 'lab', '--json', '--rounds=3'], {
      cwd: folder,
      env: childEnv(process.env),
      stdio: ['ignore', 'pipe', 'pipe'],
    })

    const { code, stderr } = await watch(child).ended

    expect(code).toBe(2)
    expect(stderr).toContain('Write: npm run -s lab -- --json --rounds 3')
    expect(stderr).not.toContain('installing')
  })
})
