import { identityOf } from '@licensing/local-servers/process-table'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PREFIX = 'licensing-test-'

export interface TemporaryFolder extends AsyncDisposable {
  readonly path: string
}

/** Creates a folder that is removed with its content when it is disposed. Other users may enter it but not list it. */
export async function makeTemporaryFolder(): Promise<TemporaryFolder> {
  const path = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`))
  await chmod(path, 0o711)
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  }
}

/** Removes the folders of test runs that were killed. */
export async function removeAbandonedFolders(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length).split('-')[0]) : Number.NaN
    if (!Number.isInteger(pid) || (await identityOf(pid)) !== undefined) continue
    // This process may not have the right to remove another user's folder.
    await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => undefined)
  }
}
