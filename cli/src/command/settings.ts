import { UsageError } from './failures.ts'
import { webAddress } from './parsers.ts'
import { readProfiles } from './profiles.ts'

/** Options of every command. */
export interface Flags {
  readonly url?: string | undefined
  readonly key?: string | undefined
  readonly app?: string | undefined
  readonly profile?: string | undefined
}

/** The address of the service, and the API key to use. */
export interface Settings {
  readonly url: string
  readonly apiKey: string
  readonly appId: string | undefined
  /** The profile that gave the URL or the key. */
  readonly profile: string | undefined
}

/** A flag wins over its variable, a variable over the profile. An empty value counts as absent. */
export async function readSettings(
  flags: Flags,
  env: NodeJS.ProcessEnv,
  warn: (message: string) => void,
): Promise<Settings> {
  const given = {
    url: value(flags.url) ?? value(env['LICENSING_URL']),
    key: value(flags.key) ?? value(env['LICENSING_API_KEY']),
    app: value(flags.app) ?? value(env['LICENSING_APP']),
  }
  const asked = value(flags.profile) ?? value(env['LICENSING_PROFILE'])
  const name = asked ?? DEFAULT_PROFILE
  const isComplete = given.url !== undefined && given.key !== undefined
  const profiles = isComplete && asked === undefined ? new Map() : await readProfiles(env, warn)
  const profile = profiles.get(name)
  if (profile === undefined && asked !== undefined) {
    const known = [...profiles.keys()].join(', ')
    throw new UsageError(
      `there is no profile ${name}${known && `; known: ${known}`}: run licensing login --profile ${name}`,
    )
  }
  const url = given.url ?? profile?.url
  if (url === undefined) {
    throw new UsageError(
      'the address of the licensing service is missing: run licensing login, set LICENSING_URL or use --url',
    )
  }
  const address = checkedUrl(url)
  // The key of a profile is sent only to the address of that profile.
  const isOwn = profile !== undefined && address === profile.url
  const key = given.key ?? (isOwn ? profile.key : undefined)
  if (key === undefined) {
    const other = profile === undefined ? '' : `the key of profile ${name} is for ${profile.url}; `
    throw new UsageError(
      `the API key is missing: ${other}run licensing login, set LICENSING_API_KEY or use --key`,
    )
  }
  if (value(flags.profile) !== undefined) warnOfVariables(flags, env, name, warn)
  const isStored = isOwn && key === profile.key
  return {
    url: address,
    apiKey: checkedKey(key),
    appId: given.app ?? (isStored ? profile.app : undefined),
    profile: given.url === undefined || isStored ? name : undefined,
  }
}

export const DEFAULT_PROFILE = 'default'

/** Trimmed; undefined if it is empty. */
export const value = (text: string | undefined) => text?.trim() || undefined

export const checkedUrl = (url: string) => webAddress('the address of the licensing service')(url).href

export function checkedKey(key: string): string {
  if (!/[^\u0021-\u007E]/.test(key)) return key
  throw new UsageError('the API key contains invalid characters: check LICENSING_API_KEY or --key')
}

/** Warns if environment variables override the chosen profile, which may be unexpected. */
function warnOfVariables(
  flags: Flags,
  env: NodeJS.ProcessEnv,
  name: string,
  warn: (message: string) => void,
) {
  const names = [
    ...(value(flags.url) === undefined && value(env['LICENSING_URL']) ? ['LICENSING_URL'] : []),
    ...(value(flags.key) === undefined && value(env['LICENSING_API_KEY']) ? ['LICENSING_API_KEY'] : []),
  ]
  if (names.length > 0) warn(`warning: ${names.join(' and ')} of the environment overrides profile ${name}`)
}
