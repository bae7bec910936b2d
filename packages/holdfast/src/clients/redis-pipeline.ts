/**
 * A script and WAIT, sent as one piece on one connection.
 *
 * WAIT counts the replicas that have what was written before it on its own connection. Sent alone it
 * may go by another connection, or by the next one after a failover, and then says yes of nothing.
 */

import type { RedisClient, RedisFamily, RedisScript } from './redis.ts'
import { asRedisError, isNoScript } from './redis-errors.ts'

export interface RedisPipeline {
  /**
   * @param timeoutMs The server waits this long for the replicas; requests behind it wait as well.
   * @returns The script's reply, and how many replicas have all that was written before.
   * @throws As `RedisScripts.run` does.
   */
  runAndWait(
    script: RedisScript,
    keys: string[],
    args: string[],
    replicaCount: number,
    timeoutMs: number,
  ): Promise<readonly [reply: unknown, replicaCount: number]>
}

type IoPipelines = {
  readonly status?: unknown
  pipeline(commands: unknown[][]): { exec(): Promise<readonly (readonly unknown[])[] | null> }
}

type NodePipeline = {
  evalSha(sha1: string, options: object): NodePipeline
  eval(lua: string, options: object): NodePipeline
  wait(replicaCount: number, timeoutMs: number): NodePipeline
  execAsPipeline(): Promise<readonly unknown[]>
}

/** Null when the client has no pipelines. */
export function pipelineOf(client: RedisClient, family: RedisFamily): RedisPipeline | null {
  const { pipeline, multi } = client as { pipeline?: unknown; multi?: unknown }
  if (family === 'ioredis') {
    return typeof pipeline === 'function' ? ofIo(client as unknown as IoPipelines) : null
  }
  return typeof multi === 'function' ? ofNode(client as unknown as NodePipelines) : null
}

function ofIo(client: IoPipelines): RedisPipeline {
  return {
    async runAndWait(script, keys, args, replicaCount, timeoutMs) {
      const wait = ['wait', replicaCount, timeoutMs]
      const ask = async (command: string, text: string): Promise<readonly [unknown, number]> => {
        const asked = client.pipeline([[command, text, keys.length, ...keys, ...args], wait])
        const answers = (await asked.exec()) ?? []
        for (const [error] of answers) if (error instanceof Error) throw error
        return [answers[0]?.[1], Number(answers[1]?.[1])]
      }
      return orAsText(script, ask, ['evalsha', 'eval'])
    },
  }
}

type NodePipelines = { multi(): NodePipeline }

function ofNode(client: NodePipelines): RedisPipeline {
  return {
    async runAndWait(script, keys, args, replicaCount, timeoutMs) {
      const options = { keys, arguments: args }
      const ask = async (
        command: 'evalSha' | 'eval',
        text: string,
      ): Promise<readonly [unknown, number]> => {
        const asked = client.multi()[command](text, options).wait(replicaCount, timeoutMs)
        const [reply, confirmed] = await asked.execAsPipeline()
        return [reply, Number(confirmed)]
      }
      return orAsText(script, ask, ['evalSha', 'eval'])
    },
  }
}

/** By the script's name, and by its text where the server does not know it. */
async function orAsText<C extends string, T>(
  script: RedisScript,
  ask: (command: C, text: string) => Promise<T>,
  [byName, byText]: readonly [C, C],
): Promise<T> {
  try {
    return await ask(byName, script.sha1)
  } catch (error) {
    if (!isNoScript(error)) throw asRedisError(error, script.name)
  }
  try {
    return await ask(byText, script.lua)
  } catch (error) {
    throw asRedisError(error, script.name)
  }
}
