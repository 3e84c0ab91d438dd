import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

// Debian does not put the second one on the path.
const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/lib/postgresql/17/bin']

/** The first folder with this program; undefined if there is none whose `--version` matches. */
export function folderOf(program: string, version: RegExp): string | undefined {
  return folders.find((folder) => {
    try {
      return version.test(
        execFileSync(join(folder, program), ['--version'], { encoding: 'utf8', stdio: 'pipe' }),
      )
    } catch {
      return false
    }
  })
}

/** The folder with all programs of PostgreSQL 17. The embedded one has only the server. */
export const postgresPrograms = folderOf('pg_rewind', /\) 17\./)
