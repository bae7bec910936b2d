/** Whether the comparison of a Redis with its model finds bugs, and the same ones on both sides. */
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import type { RedisScript } from '../../src/clients/redis.ts'
import type { Patch } from '../../src/sim/mutants.ts'
import { patched, readSource } from '../../src/sim/mutate.ts'
import { MODELLED_SCRIPTS, SCRIPT_MODELS } from '../../src/sim/node/scripts/index.ts'
import type { ScriptModel } from '../../src/sim/node/scripts/model.ts'
import { NODE_MUTANTS } from '../support/node-mutants.ts'
import { stepsOfRedlock } from '../support/redis-differential/redlock-steps.ts'
import { runDifferential } from '../support/redis-differential/run.ts'
import { Server } from '../support/redis-differential/server.ts'
import { stepsOfRedis } from '../support/redis-differential/steps.ts'
import { REDLOCK_NODE_MUTANTS } from '../support/redlock-node-mutants.ts'

/** That of the comparison itself, so that what is found here is found there. */
const SEED = 1
const STEPS = 50_000
/** Enough for a mutant of the model that is another bug than that of the Lua text. */
const STEPS_TOGETHER = 1000
const SOURCE = fileURLToPath(new URL('../../src', import.meta.url))
/** What the models import besides themselves. */
const SHARED = ['backends', 'clients', 'core']

let started: RedisServer
let redis: Redis
let server: Server
let folder: string

beforeAll(async () => {
  started = await startRedis()
  redis = new Redis(started.port, '127.0.0.1')
  server = new Server(redis)
  folder = mkdtempSync(join(tmpdir(), 'holdfast-mutants-'))
})

afterAll(async () => {
  server?.close()
  redis?.disconnect()
  await started?.stop()
  rmSync(folder, { recursive: true, force: true })
})

type Kind = Readonly<{ folders: readonly string[]; stepsFor: typeof stepsOfRedlock }>

const OF_REDIS: Kind = { folders: ['backends/redis/scripts', 'wire'], stepsFor: stepsOfRedis }
const OF_REDLOCK: Kind = { folders: ['backends/redlock/scripts', 'wire'], stepsFor: stepsOfRedlock }
const mutants = [
  ...NODE_MUTANTS.map((mutant) => [mutant.name, mutant, OF_REDIS] as const),
  ...REDLOCK_NODE_MUTANTS.map((mutant) => [mutant.name, mutant, OF_REDLOCK] as const),
]

describe('a bug on the side of a Redis node', () => {
  // The accident: the source changes, a patch matches nothing, and its bug is taken for caught.
  it.each(mutants)(
    'is patched in where its text stands once: %s',
    (_, { lua, model }, { folders }) => {
      for (const patch of [lua, model]) {
        const source = readSource(patch)
        expect(patched(source, patch)).not.toBe(source)
      }
      // In another file it would patch another script as well.
      const texts = folders.flatMap(textsIn)
      expect(texts.filter((text) => text.includes(lua.text))).toHaveLength(1)
    },
  )

  it.each(mutants)('is found in the Lua text: %s', async (_, { lua }, { stepsFor }) => {
    await server.open(MODELLED_SCRIPTS, (script) => luaWith(script, lua))
    const given = {
      redis,
      server,
      models: SCRIPT_MODELS,
      stepsFor,
      seed: SEED,
      steps: STEPS,
    }
    const outcome = await runDifferential(given)
    expect(outcome.difference).toMatch(/^seed 1, database \d+, step \d+: /)
  })

  // The accident: the two are different bugs, and the simulation catches one that no script could have.
  it.each(mutants)('is the same in the model: %s', async (name, { lua, model }, { stepsFor }) => {
    await server.open(MODELLED_SCRIPTS, (script) => luaWith(script, lua))
    const models = await patchedModels(join(folder, name.replaceAll(' ', '-')), model)
    const given = {
      redis,
      server,
      models,
      stepsFor,
      seed: SEED,
      steps: STEPS_TOGETHER,
    }
    expect((await runDifferential(given)).difference).toBe(null)
  })
})

function textsIn(folder: string): string[] {
  const path = join(SOURCE, folder)
  return readdirSync(path).map((file) => readFileSync(join(path, file), 'utf8'))
}

/** A script may have its text from several files. */
function luaWith({ lua }: RedisScript, { text, replacement }: Patch): string {
  return lua.replaceAll(text, () => replacement)
}

async function patchedModels(
  copy: string,
  patch: Patch,
): Promise<ReadonlyMap<string, ScriptModel>> {
  cpSync(join(SOURCE, 'sim'), join(copy, 'sim'), { recursive: true })
  for (const part of SHARED) symlinkSync(join(SOURCE, part), join(copy, part))
  writeFileSync(join(copy, patch.file), patched(readSource(patch), patch))
  const module = await import(join(copy, 'sim/node/scripts/index.ts'))
  return module.SCRIPT_MODELS
}
