/** The command line from its tarball, with the library from the other one. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  broken,
  emptyFolder,
  linkPackages,
  type Outcome,
  packedTarballs,
  runNode,
  unpacked,
} from './folders.ts'

const tarballs = packedTarballs()

interface Manifest {
  readonly version: string
  readonly bin: { readonly holdfast: string }
  readonly dependencies: Readonly<Record<string, string>>
}

/** Starts the command in a folder where only what its package.json names can be found. */
async function holdfast(cli: string, ...args: readonly string[]): Promise<Outcome & Manifest> {
  const folder = emptyFolder()
  const own = join(folder, 'node_modules/@holdfast/cli')
  mkdirSync(own, { recursive: true })
  cpSync(await unpacked(cli), own, { recursive: true })
  cpSync(await unpacked(tarballs.holdfast), join(folder, 'node_modules/holdfast'), {
    recursive: true,
  })
  const manifest = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as Manifest
  linkPackages(
    folder,
    Object.keys(manifest.dependencies).filter((name) => name !== 'holdfast'),
  )
  return { ...manifest, ...(await runNode(folder, join(own, manifest.bin.holdfast), ...args)) }
}

// The accident: the command runs in the repository, where every package can be found, and fails
// for everybody who installs it.
it('the command starts from its tarball', async () => {
  const help = await holdfast(tarballs.cli, 'lab', '--help')
  expect(help).toMatchObject({ code: 0, output: expect.stringContaining('Usage: holdfast lab') })
  const version = await holdfast(tarballs.cli, '--version')
  expect(version.output.trim()).toBe(version.version)
})

// npm makes the file executable, and the shell reads its first line.
it('the command says which program runs it', async () => {
  const folder = await unpacked(tarballs.cli)
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
  const text = readFileSync(join(folder, bin.holdfast), 'utf8')
  expect(text.startsWith('#!/usr/bin/env node\n')).toBe(true)
})

it('a command that needs an undeclared package is found', async () => {
  const damaged = await broken(tarballs.cli, (folder) => {
    const path = join(folder, 'package.json')
    const json = JSON.parse(readFileSync(path, 'utf8')) as Manifest
    const { commander: _, ...dependencies } = json.dependencies
    writeFileSync(path, JSON.stringify({ ...json, dependencies }))
  })
  const { code, output } = await holdfast(damaged, '--version')
  expect(code).toBe(1)
  expect(output).toContain("Cannot find package 'commander'")
})
