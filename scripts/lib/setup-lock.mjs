/** The lock of one clone's set-up. */
import { join } from 'node:path'
import { withLockFolder } from './lock-folder.mjs'

/** Not below node_modules, which `npm ci` removes. `.holdfast/` is not under version control. */
export function withSetupLock(root, body) {
  return withLockFolder(join(root, '.holdfast', 'setup.lock'), body)
}
