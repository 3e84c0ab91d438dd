import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/lib/postgresql/17/bin']

/** The folder of a program of this machine; undefined if it is missing, or prints another `--version`. */
export function folderOf(program: string, version: RegExp): string | undefined {
  return folders.find((folder) => {
    try {
      const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore']
      return version.test(execFileSync(join(folder, program), ['--version'], { stdio }).toString())
    } catch {
      return false
    }
  })
}

/** The folder with all programs of PostgreSQL 17. The embedded one has only the server. */
export const postgresPrograms = folderOf('pg_rewind', /\) 17\./)
