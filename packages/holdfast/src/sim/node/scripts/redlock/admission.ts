/** The scripts that let a node vote, or keep it from voting. */
import type { ScriptModel } from '../model.ts'
import { lift } from '../tokens.ts'
import { isClosedFor, parse } from './gate.ts'

/** Places in the text of a marker. */
const STATE_END = 6
const RUN_ID_AT = 65
const RUN_ID_END = 105
const REST_AT = 106

export const state: ScriptModel = (run, [markerKey = '']) => {
  const replicas = String(run.replicaCount)
  return [run.get(markerKey) ?? '', run.runId, run.role, replicas, String(run.nowUs)]
}

export const counters: ScriptModel = (run, keys) => keys.map((key) => run.read(key) ?? '')

export const quarantine: ScriptModel = (run, [markerKey = '', ...counterKeys], args) => {
  const [inc = '', setId = '', n = '', longest = '', names = '', seen = ''] = args
  const found = run.get(markerKey)
  if (found === null && seen !== '') return ''
  let longestMs = Number(longest)
  if (found !== null) {
    const marker = parse(found)
    const isAsSeen = found === seen
    if (isClosedFor(marker, setId)) {
      if (!isAsSeen && seen !== '') return found
    } else {
      const isOfSet = marker.state === 'waiting' || marker.state === 'voting'
      if (!isAsSeen || !isOfSet || marker.setId !== setId) return found
      const lostCounter = marker.state === 'voting' && counterKeys.some((key) => !run.exists(key))
      if (marker.runId === run.runId && !lostCounter) return found
    }
    longestMs = Math.max(longestMs, marker.longestMs)
  }
  const widths = `${n.padStart(2, '0')}:${String(longestMs).padStart(8, '0')}`
  const written = ['hfm1:w', inc, setId, widths, run.runId, names].join(':')
  run.set(markerKey, written, 'for ever')
  return written
}

export const admit: ScriptModel = (run, [markerKey = '', ...counterKeys], args) => {
  const [inc = '', runId = '', ...floors] = args
  const found = run.get(markerKey)
  if (found === null) return ''
  const marker = parse(found)
  const isTheOneWaitedFor = marker.inc === inc && marker.runId === (runId || run.runId)
  if (marker.state !== 'waiting' || !isTheOneWaitedFor) return found
  counterKeys.forEach((key, index) => {
    lift(run, key, run.read(key) ?? '', floors[index] ?? '')
  })
  const written = `hfm1:v${found.slice(STATE_END)}`
  run.set(markerKey, written, 'for ever')
  return written
}

export const adoptRun: ScriptModel = (run, [markerKey = ''], [seen = '']) => {
  const found = run.get(markerKey)
  if (found === null || found !== seen || parse(found).state !== 'voting') return found ?? ''
  const isAlone = run.role === 'master' && run.replicaCount === 0
  if (parse(found).runId === run.runId || !isAlone) return found
  const written = found.slice(0, RUN_ID_AT) + run.runId + found.slice(RUN_ID_END)
  run.set(markerKey, written, 'for ever')
  return written
}

export const close: ScriptModel = (run, [markerKey = ''], [seen = '', to = '']) => {
  const found = run.get(markerKey)
  if (found === null || found !== seen || parse(found).state === 'unknown') return found ?? ''
  const written = `hfm1:c${found.slice(STATE_END, REST_AT)}${to}`
  run.set(markerKey, written, 'for ever')
  return written
}
