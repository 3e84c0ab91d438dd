import { chmod, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Makes a folder and those above it that are missing. Each that it makes can be passed through by everybody (not
 * listed), whatever the umask: PostgreSQL runs as another user when we are root. What is secret below is kept so
 * by its own mode.
 */
export async function makePassableFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let each = folder; each.length >= first.length; each = dirname(each)) {
    await chmod(each, 0o711)
    if (each === dirname(each)) return
  }
}
