import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { LAB } from './fixtures/run-lab.ts'

/** Of util-linux, which every Debian has; it gives a program a terminal and writes down what it shows. */
const hasScript = spawnSync('script', ['--version']).status === 0
if (!hasScript) {
  console.warn('left out, the test of the lab on a terminal: there is no `script` in PATH')
}

test.skipIf(!hasScript)('on a terminal bars are on stderr, and stdout stays one JSON text', () => {
  // Bars in a file that somebody parses.
  const tmp = mkdtempSync(join(tmpdir(), 'lab-test-'))
  chmodSync(tmp, 0o711)
  try {
    const [shown, json] = [join(tmp, 'shown'), join(tmp, 'out.json')]
    const command = `'${process.execPath}' '${LAB}' unlock --rounds 2 --lanes 2 --json > '${json}'`
    const { status } = spawnSync('script', ['-qec', command, shown], {
      env: { ...process.env, TMPDIR: tmp },
      stdio: 'ignore',
    })
    expect(status).toBe(0)
    expect(JSON.parse(readFileSync(json, 'utf8'))).toMatchObject({
      scenarios: [{ name: 'unlock', verdict: 'holds' }],
    })
    const terminal = readFileSync(shown, 'utf8')
    expect(terminal).toMatch(/unlock {2}bare delete {4}\[[=-]{30}\] {2}\d\/2/)
    expect(terminal).toMatch(/unlock {2}owner-checked {2}\[[=-]{30}\] {2}\d\/2/)
    // The cursor is hidden for the bars and shown again after them.
    expect(terminal.lastIndexOf('\u001b[?25h')).toBeGreaterThan(terminal.lastIndexOf('\u001b[?25l'))
  } finally {
    rmSync(tmp, { recursive: true, force: true })
  }
})

test.skipIf(!hasScript)('on a narrow terminal no line of the report is wider than it', () => {
  // A table that the terminal breaks wherever it happens to end cannot be read.
  const tmp = mkdtempSync(join(tmpdir(), 'lab-test-'))
  chmodSync(tmp, 0o711)
  try {
    const shown = join(tmp, 'shown')
    const lab = `'${process.execPath}' '${LAB}' unlock --rounds 1 --lanes 1 --seed 5`
    const { status } = spawnSync('script', ['-qec', `stty cols 44; ${lab} 2> /dev/null`, shown], {
      env: { ...process.env, TMPDIR: tmp },
      stdio: 'ignore',
    })
    expect(status).toBe(0)
    const lines = readFileSync(shown, 'utf8').replaceAll('\r', '').split('\n')
    const report = lines.slice(lines.findIndex((line) => line.startsWith('unlock: ')))
    expect(report).toContain('* owner-checked: holds')
    expect(report.join('\n')).toContain('    protected: yes, rounds 1, held by two')
    // What script itself adds at the end, and the command that somebody copies, are theirs.
    const own = report.filter((line) => !/^(replay:|Script )/.test(line))
    expect(own.filter((line) => [...line].length > 44)).toEqual([])
  } finally {
    rmSync(tmp, { recursive: true, force: true })
  }
})
