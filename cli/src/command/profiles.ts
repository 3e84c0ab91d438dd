import { fileStore } from '@licensing/sdk/node'
import { mkdir, stat } from 'node:fs/promises'
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
  const home = env['HOME'] && join(env['HOME'], '.config')
  // Windows has no HOME, but APPDATA.
  const config = env['XDG_CONFIG_HOME'] || home || env['APPDATA']
  return config ? join(config, 'licensing', 'profiles.json') : undefined
}

/** @throws Refusal if the file cannot be read or was not written by `login` */
export async function readProfiles(
  env: NodeJS.ProcessEnv,
  warn: (message: string) => void,
): Promise<Profiles> {
  const file = profileFile(env)
  if (file === undefined) return new Map()
  const text = await fileStore(file)
    .read()
    .catch(() => unreadable(file, 'cannot be read'))
  if (text === null) return new Map()
  const profiles = parseProfiles(file, text)
  // Windows reports no permissions of other users.
  if (process.platform !== 'win32' && ((await stat(file)).mode & 0o077) !== 0) {
    warn(`warning: other users may read the API keys in ${file}: run chmod 600 ${file}`)
  }
  return profiles
}

/**
 * Changes the profiles in the file, which is replaced at once. If the path is a symbolic link, the file that it leads to is
 * replaced. A change that another process makes at the same time is kept.
 *
 * @returns the path of the file
 */
export async function changeProfiles(
  env: NodeJS.ProcessEnv,
  change: (profiles: Profiles) => Profiles,
): Promise<string> {
  const file = profileFile(env)
  if (file === undefined) throw new UsageError('profiles need a home folder: set HOME or XDG_CONFIG_HOME')
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await fileStore(file).update(async (text) => {
    const changed = change(text === null ? new Map() : parseProfiles(file, text))
    return `${JSON.stringify(Object.fromEntries(changed), null, 2)}\n`
  })
  return file
}

function parseProfiles(file: string, text: string): Profiles {
  const content = parse(text)
  return isProfiles(content)
    ? new Map(Object.entries(content))
    : unreadable(file, 'is not a file of licensing login')
}

function unreadable(file: string, reason: string): never {
  throw new Refusal('profiles_unreadable', `${file} ${reason}: repair or remove it`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
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
