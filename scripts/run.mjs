/**
 * The one door to everything that is run here: sets up what is missing, then runs it.
 *
 *     node scripts/run.mjs lab   [arguments of the lab]     npm run lab [-- arguments]
 *     node scripts/run.mjs bench [options of the bench]     npm run bench [-- options]
 *     node scripts/run.mjs sim   [options of the simulation] npm run sim [-- options]
 *     node scripts/run.mjs test  [arguments of vitest]      npm test [-- arguments]
 *     node scripts/run.mjs build                            set-up and build only
 *
 * In order: Node's version; flags that npm took for itself; packages, by package-lock.json; the
 * servers; the build; then what was asked for. All of it happens once: a second run takes about a
 * quarter of a second until the lab starts. It needs Node and npm, and for servers that the machine
 * lacks, apt; no root.
 *
 * stdout belongs to what is run: everything this script says goes to stderr.
 *
 * Exit codes: that of what was run (128 + n if signal n ended it); 1 the set-up failed; 2 wrong
 * usage; 3 `lab` or `bench` without what it needs.
 *
 * Missing servers and `lab`: it runs its experiments on files of SQLite instead, as with `--embedded`,
 * and says so in one line; under a Node 22 from npm if no driver of SQLite loads under this one.
 *
 * Missing servers (no apt, no network) and `test`: the projects that need none are run, one line
 * says which are not and why, and their result counts. With HOLDFAST_REQUIRE_SERVERS=1 missing
 * servers, a missing Node of another version, or a missing better-sqlite3 where it could be compiled
 * are a failure; .ci/run sets it.
 *
 * HOLDFAST_IGNORE_MACHINE_SERVERS=1 unpacks servers even if the machine has some; HOLDFAST_CACHE
 * names the folder for what is downloaded.
 */
const [major, minor] = process.versions.node.split('.').map(Number)

if (major < 20 || (major === 20 && minor < 19)) {
  // Nothing newer than this file's own syntax may be loaded before: it would end in a SyntaxError.
  process.stderr.write(`holdfast: Node 20.19 or newer is needed; this is ${process.version}\n`)
  process.exitCode = 1
} else {
  const { main } = await import('./lib/main.mjs')
  process.exitCode = await main(process.argv.slice(2))
}
