import { expect, it } from 'vitest'
import { parseMarker, quorumOf, setIdOf } from '../../../src/backends/redlock/marker.ts'

const INC = 'i'.repeat(22)
const RUN = '0123456789abcdef'.repeat(3).slice(0, 40)
const SET = setIdOf(['a', 'b'])
const form = (state: string, rest: string): string =>
  `hfm1:${state}:${INC}:${SET}:02:00120000:${RUN}:${rest}`

it('a marker is read as it is written, names with every allowed character', () => {
  const common = { inc: INC, setId: SET, nodeCount: 2, maxTtlMs: 120_000, runId: RUN }
  expect(parseMarker(form('v', 'a:1 é,b'))).toEqual({
    ...common,
    ...{ state: 'voting', names: ['a:1 é', 'b'], toSetId: null },
  })
  expect(parseMarker(form('w', 'a,b'))?.state).toBe('waiting')
  expect(parseMarker(form('c', 's'.repeat(22)))).toEqual({
    ...common,
    ...{ state: 'closed', names: [], toSetId: 's'.repeat(22) },
  })
})

// Somebody else's text at the key must not be taken for a vote, nor written over.
it.each([
  ['nothing', ''],
  ['another state', form('x', 'a,b')],
  ['a closed one that leads nowhere', form('c', 'short')],
  ['a short run_id', form('v', 'a,b').replace(RUN, 'abc')],
  ['another version', form('v', 'a,b').replace('hfm1', 'hfm2')],
  ['something before it', ` ${form('v', 'a,b')}`],
])('%s is no marker', (_, text) => {
  expect(parseMarker(text)).toBeNull()
})

// Programs compute it, each for itself; a change would make strangers of those that run.
it('the id of a set follows from its names alone, in any order', () => {
  expect(setIdOf(['c', 'a', 'b'])).toBe('6n-wi3otxGGf-3x7s42Vog')
  const sets = [
    ['a', 'b', 'c'],
    ['a', 'b', 'd'],
    ['a', 'b'],
    ['ab', 'c'],
    ['a', 'bc'],
  ]
  expect(new Set(sets.map(setIdOf)).size).toBe(sets.length)
  for (const set of sets) expect(setIdOf(set)).toMatch(/^[\w-]{22}$/)
})

it('a quorum is more than half', () => {
  expect([1, 2, 3, 4, 5, 99].map(quorumOf)).toEqual([1, 2, 2, 3, 3, 50])
})
