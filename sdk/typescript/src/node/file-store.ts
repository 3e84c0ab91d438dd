import { createHash, randomUUID } from 'node:crypto'
import { link, mkdir, readFile, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { LicenceStore } from '../product/store.ts'

/** A store with asynchronous functions. */
export interface FileStore extends LicenceStore {
  read(): Promise<string | null>
  write(text: string): Promise<void>
  update(change: (text: string | null) => Promise<string>): Promise<void>
}

/**
 * A store in one file, readable by its owner only. The file is replaced by renaming, so a crash leaves either the old or
 * the new content. Its folder is created if it is missing. Several processes may share it.
 *
 * If the file cannot be replaced by renaming (a single mounted file, a read-only folder), it is written in place.
 *
 * @param path of the file; in a container it should be on a volume
 * @example const store = fileStore('/var/lib/acme/licence.json')
 */
export function fileStore(path: string): FileStore {
  const update: FileStore['update'] = async (change) => {
    const file = await target(path)
    for (;;) {
      const before = await readText(file)
      if (await replace(file, before, await change(before))) return
    }
  }
  return { read: () => readText(path), write: (text) => update(() => Promise.resolve(text)), update }
}

/** The text of a file; null if there is none. */
export async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

/** The file that a path leads to through symbolic links, even if that file does not exist yet. */
export async function target(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
  try {
    return await target(resolve(dirname(path), await readlink(path)))
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'EINVAL') return path
    throw error
  }
}

/** Creates a file with this text, unless it exists. No reader sees a part of it. */
export async function createFile(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${randomUUID()}`
  try {
    await writeFile(draft, text, { mode: 0o600, flush: true })
    await link(draft, path)
  } finally {
    await rm(draft, { force: true })
  }
}

/**
 * Replaces the text `before` of a file by `after`. False if another process has replaced it first.
 *
 * The new text is first written to a file whose name is derived from the old text, so only one process can create it.
 * If that process is killed, another one can rename the complete file into place. No process waits for a lock that a
 * crash left behind.
 */
async function replace(path: string, before: string | null, after: string): Promise<boolean> {
  const successor = `${path}.after-${before === null ? 'none' : digest(before)}`
  let isOurs = true
  try {
    await createFile(successor, after)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') return writeInPlace(path, before, after, error)
    if (!(await isAbandoned(successor))) return false
    isOurs = false
  }
  // Checked again now: from here only this successor can replace `before`.
  if ((await readText(path)) !== before) {
    if (isOurs) await rm(successor, { force: true })
    return false
  }
  try {
    await rename(successor, path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') {
      await rm(successor, { force: true })
      return writeInPlace(path, before, after, error)
    }
    // Another process assumed that this one was killed, and has renamed the successor into place.
  }
  return isOurs
}

/** A process that has not finished a write after this time was killed: a write takes a few milliseconds. */
const ABANDONED_AFTER_MS = 1000
const POLL_MS = 5

/** Waits until a successor is in place. True if that does not happen, because its process was killed. */
async function isAbandoned(successor: string): Promise<boolean> {
  const begun = performance.now()
  const first = await inodeOf(successor)
  while (performance.now() - begun < ABANDONED_AFTER_MS) {
    await pause(POLL_MS)
    if ((await inodeOf(successor)) !== first) return false
  }
  return first !== undefined
}

async function inodeOf(path: string): Promise<bigint | undefined> {
  try {
    return (await stat(path, { bigint: true })).ino
  } catch {
    return undefined
  }
}

/** Errors of file systems that contain the file, but cannot link or rename in its folder. */
const NOT_REPLACEABLE = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'EBUSY',
  'EXDEV',
  'ENOTSUP',
  'EOPNOTSUPP',
  'ENOSYS',
])

async function writeInPlace(
  path: string,
  before: string | null,
  after: string,
  cause: unknown,
): Promise<boolean> {
  if (!NOT_REPLACEABLE.has(codeOf(cause))) throw cause
  if ((await readText(path)) !== before) return false
  await writeFile(path, after, { mode: 0o600, flush: true })
  return true
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
