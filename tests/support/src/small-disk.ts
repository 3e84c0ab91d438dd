import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A file system of a limited size. */
export interface SmallDisk extends Disposable {
  readonly folder: string
  /** Takes all of its space. @returns a function that frees it */
  fill(): Promise<() => Promise<void>>
}

/**
 * Mounts a file system in memory. Undefined if this process may not mount one, because it does not run as root.
 *
 * @param folder where to mount it, by default a folder that is removed with it
 */
export function mountSmallDisk(mebibytes: number, folder?: string): SmallDisk | undefined {
  const path = folder ?? mkdtempSync(join(tmpdir(), 'small-disk-'))
  mkdirSync(path, { recursive: true })
  const dispose = () => {
    if (folder === undefined) rmSync(path, { recursive: true })
  }
  try {
    const options = `size=${mebibytes}m,mode=711`
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', path], { stdio: 'ignore' })
  } catch {
    dispose()
    return undefined
  }
  return {
    folder: path,
    fill: () => fill(path),
    [Symbol.dispose]: () => {
      execFileSync('umount', ['--lazy', path])
      dispose()
    },
  }
}

async function fill(folder: string): Promise<() => Promise<void>> {
  const path = join(folder, 'filling')
  const file = await open(path, 'w')
  const mebibyte = Buffer.alloc(1024 * 1024)
  try {
    // A page that another process frees meanwhile is taken too.
    for (let free = 1; free > 0; free = statfsSync(folder).bavail) await file.write(mebibyte)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    await file.close()
  }
  return () => rm(path)
}
