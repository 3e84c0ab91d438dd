import { chmod, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Creates a folder and its missing parents. Whatever the umask, every user may enter the created folders but not list
 * them, because PostgreSQL runs as another user if this process runs as root. Secret files inside have their own mode.
 */
export async function makeAccessibleFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let each = folder; each.length >= first.length; each = dirname(each)) {
    await chmod(each, 0o711)
    if (each === dirname(each)) return
  }
}
