import { createHash, randomUUID } from 'node:crypto'
import { link, mkdir, readFile, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { LicenceStore } from '../product/store.ts'

/** A store whose answers always take a while. */
export interface FileStore extends LicenceStore {
  read(): Promise<string | null>
  write(text: string): Promise<void>
  update(change: (text: string | null) => Promise<string>): Promise<void>
}

/**
 * A store in one file, readable by its owner only. It is replaced whole, by renaming, so that a crash leaves the old
 * content or the new and never a half. Its folder is created if it is missing. Several processes may share it.
 *
 * If the file cannot be renamed over (a mounted single file, a folder that is read-only), it is written in place.
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

/** The file that a path leads to over symbolic links, also if that file does not exist yet. */
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

/** Creates a file with this text, unless it exists. It appears whole or not at all. */
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
 * The successor of a text is a file of its own, whose name follows from that text: only one process can create it.
 * It is whole, so that another process can put it into place if the first one is killed: nobody waits for a lock that
 * a crash has left behind.
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
  // Looked at again only now: from here nothing but this successor can take the place of `before`.
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
    // Another process took this one for killed, and has put the successor into place.
  }
  return isOurs
}

/** To write takes a process a few milliseconds. */
const ABANDONED_AFTER_MS = 1000
const LOOK_EVERY_MS = 5

/** Waits until a successor is in place. True if nobody puts it there: its process was killed. */
async function isAbandoned(successor: string): Promise<boolean> {
  const begun = performance.now()
  const first = await inodeOf(successor)
  while (performance.now() - begun < ABANDONED_AFTER_MS) {
    await pause(LOOK_EVERY_MS)
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

/** What a file system answers that has the file, but cannot link or rename beside it. */
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
