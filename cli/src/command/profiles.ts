import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Refusal, UsageError } from './failures.ts'

/** A profile that `login` stores. */
export interface Profile {
  readonly url: string
  readonly key: string
  readonly app?: string
}

type Profiles = ReadonlyMap<string, Profile>

/** The path of the file with the profiles; undefined if the environment names no home folder. */
export function profileFile(env: NodeJS.ProcessEnv): string | undefined {
  const config = env['XDG_CONFIG_HOME'] || (env['HOME'] && join(env['HOME'], '.config'))
  return config ? join(config, 'licensing', 'profiles.json') : undefined
}

/** @throws Refusal if the file cannot be read or was not written by `login` */
export async function readProfiles(
  env: NodeJS.ProcessEnv,
  warn: (message: string) => void,
): Promise<Profiles> {
  const file = profileFile(env)
  if (file === undefined) return new Map()
  try {
    const content = JSON.parse(await readFile(file, 'utf8')) as unknown
    if (!isProfiles(content)) throw new SyntaxError('not profiles')
    if (((await stat(file)).mode & 0o077) !== 0) {
      warn(`warning: other users may read the API keys in ${file}: run chmod 600 ${file}`)
    }
    return new Map(Object.entries(content))
  } catch (error) {
    if (isCode(error, 'ENOENT')) return new Map()
    const reason = error instanceof SyntaxError ? 'is not a file of licensing login' : 'cannot be read'
    throw new Refusal('profiles_unreadable', `${file} ${reason}: repair or remove it`)
  }
}

/** Replaces the file atomically, so that a reader never sees half of it. */
export async function writeProfiles(env: NodeJS.ProcessEnv, profiles: Profiles): Promise<string> {
  const file = profileFile(env)
  if (file === undefined) throw new UsageError('profiles need a home folder: set HOME or XDG_CONFIG_HOME')
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const temporary = `${file}.${randomUUID()}`
  try {
    const text = `${JSON.stringify(Object.fromEntries(profiles), null, 2)}\n`
    await writeFile(temporary, text, { mode: 0o600, flag: 'wx' })
    await rename(temporary, file)
  } finally {
    await rm(temporary, { force: true })
  }
  return file
}

function isProfiles(content: unknown): content is Record<string, Profile> {
  if (typeof content !== 'object' || content === null || Array.isArray(content)) return false
  return Object.values(content).every((profile: Partial<Profile> | null) => {
    return (
      typeof profile?.url === 'string' &&
      typeof profile.key === 'string' &&
      ['string', 'undefined'].includes(typeof profile.app)
    )
  })
}

const isCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code
