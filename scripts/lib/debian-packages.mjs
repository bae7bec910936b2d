/**
 * Unpacks Debian packages into a folder, without installing them.
 *
 * Installing would start the servers as services on their default ports and needs root. Downloading
 * needs neither when apt is told to keep its lists, its archives and its locks in a folder of ours.
 * It still reads the machine's package sources and the list of what is installed, so that only
 * missing libraries are fetched. The named packages themselves are fetched even if installed
 * (`--reinstall`): a package that is there but whose program was not found is of no use.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { runQuietly, SetupError } from './progress.mjs'

/** Null when packages can be unpacked here, else why not. */
export function whyNoPackages() {
  const folders = (process.env.PATH ?? '').split(delimiter)
  for (const program of ['apt-get', 'apt-cache', 'dpkg-deb']) {
    if (!folders.some((folder) => existsSync(join(folder, program)))) {
      return `${program} is not on this machine`
    }
  }
  return null
}

/**
 * Downloads the packages and what they need, unpacks all into `target` and tidies up.
 *
 * @throws {SetupError} with a reason of one line.
 */
export async function unpackPackages(names, target) {
  const work = `${target}.apt`
  const config = prepareApt(work)
  const apt = (...args) => runQuietly('apt-get', ['-c', config, ...args], { env: aptEnv() })
  try {
    // Its exit code tells little: 0 without any network, 100 when one of many sources is broken.
    await apt('update').catch(ignoreSetupError)
    if (!readdirSync(join(work, 'lists')).some((name) => /_Packages(\.|$)/.test(name))) {
      throw new SetupError('apt-get update got no package lists; is there a network?')
    }
    const wanted = await resolveNames(names, config)
    await apt(
      ...['install', '-y', '--download-only', '--no-install-recommends', '--reinstall'],
      ...wanted,
    ).catch((error) => {
      throw new SetupError(`apt-get install: ${errorLines(error)}`)
    })
    const archives = join(work, 'archives')
    for (const file of readdirSync(archives).filter((name) => name.endsWith('.deb'))) {
      await runQuietly('dpkg-deb', ['-x', join(archives, file), target])
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

function ignoreSetupError(error) {
  if (!(error instanceof SetupError)) throw error
}

/** What apt marks as errors, on one line. */
function errorLines(error) {
  if (!(error instanceof SetupError)) throw error
  const lines = error.message.split('\n').filter((line) => line.startsWith('E: '))
  return lines.map((line) => line.slice('E: '.length)).join(' ') || error.message
}

/** The folders must be there before apt looks; it does not make `partial` itself in every case. */
function prepareApt(work) {
  for (const folder of ['lists/partial', 'archives/partial', 'log']) {
    mkdirSync(join(work, folder), { recursive: true })
  }
  const config = join(work, 'apt.conf')
  writeFileSync(
    config,
    [
      `Dir::State::lists "${join(work, 'lists')}";`,
      `Dir::Cache "${work}";`,
      `Dir::Cache::archives "${join(work, 'archives')}";`,
      `Dir::Log "${join(work, 'log')}";`,
      'Debug::NoLocking "true";',
      'APT::Sandbox::User "root";', // No change to the user _apt, who may not enter our folder.
      'Acquire::Languages "none";',
      'Acquire::Retries "2";',
      'Acquire::http::Timeout "30";',
      'Acquire::https::Timeout "30";',
      // Programs that the machine runs after an update or an install; neither happens here.
      '#clear APT::Update::Pre-Invoke;',
      '#clear APT::Update::Post-Invoke;',
      '#clear APT::Update::Post-Invoke-Success;',
      '#clear DPkg::Pre-Install-Pkgs;',
      '#clear DPkg::Post-Invoke;',
      '',
    ].join('\n'),
  )
  return config
}

/**
 * `postgresql` is an empty package that needs the release's version, `postgresql-15` on Debian 12;
 * only a package named in the command is fetched although it is installed.
 */
async function resolveNames(names, config) {
  const wanted = []
  for (const name of names) {
    if (name !== 'postgresql') wanted.push(name)
    else {
      const text = await runQuietly('apt-cache', ['-c', config, 'depends', name], { env: aptEnv() })
      const [version] = /postgresql-\d+/.exec(text) ?? []
      wanted.push(version ?? name)
    }
  }
  return wanted
}

/** English messages, no questions. */
function aptEnv() {
  return { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' }
}
