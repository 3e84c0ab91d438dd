import type { LicensingBackend } from '@licensing/sdk/backend'
import http from 'node:http'
import { UsageError, Refusal } from './failures.ts'

/** The value of a flag, else of its environment variable; an empty one counts as absent. */
export function setting(
  flag: string | boolean | undefined,
  variable: string | undefined,
): string | undefined {
  const value = typeof flag === 'string' ? flag : variable
  return value === undefined || value.trim() === '' ? undefined : value.trim()
}

export function connectionOf(url: string | undefined, apiKey: string | undefined) {
  if (url === undefined) {
    throw new UsageError('the address of the licensing service is missing: set LICENSING_URL or use --url')
  }
  if (apiKey === undefined) throw new UsageError('the API key is missing: set LICENSING_API_KEY or use --key')
  if (/[^\u0021-\u007E]/.test(apiKey)) {
    throw new UsageError('the API key contains invalid characters: check LICENSING_API_KEY or --key')
  }
  return { baseUrl: webAddress(url, 'the address of the licensing service').href, apiKey }
}

/** An http or https URL. It is not repeated in the message: it may hold a password. */
export function webAddress(text: string, what: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError(`${what} must be an http:// or https:// URL`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError(`${what} must not contain a user name or password`)
  }
  return url
}

/** The application asked for, else the key's, else the account's only one. */
export async function findApplication(backend: LicensingBackend, asked: string | undefined): Promise<string> {
  if (asked !== undefined) return asked
  const { app_id: bound } = await backend.get('/v1/api-keys/self')
  if (bound !== null) return bound
  const apps: { id: string; name: string }[] = []
  for await (const { id, name } of backend.rows('/v1/apps')) apps.push({ id, name })
  const [only] = apps
  if (only === undefined) throw new Refusal('application_required', 'the account has no application yet')
  if (apps.length === 1) return only.id
  throw new Refusal(
    'application_required',
    'the account has several applications: choose one with --app or LICENSING_APP',
    { applications: apps },
    apps.map(({ id, name }) => `  ${id}  ${name}`),
  )
}

const variables = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'] as const

/**
 * From now on this process sends its requests with `fetch` through the proxy that the environment names, except to the
 * hosts of NO_PROXY. `warn` hears if this version of Node cannot do that.
 *
 * @throws UsageError if the address of the proxy is malformed
 */
export function useProxy(env: NodeJS.ProcessEnv, warn: (message: string) => void): void {
  const named = variables.filter((name) => setting(undefined, env[name]) !== undefined)
  if (named.length === 0 || isDoneByNode(env)) return
  // Node before 25.4 lacks it.
  const setProxy = (http as Partial<typeof http>).setGlobalProxyFromEnv
  if (setProxy === undefined) {
    warn(`${named.join(', ')} is not used: run with NODE_USE_ENV_PROXY=1 on Node 22.21, or with Node 26`)
    return
  }
  try {
    setProxy(env)
  } catch {
    // The address is not repeated: it may hold a password.
    throw new UsageError(`the proxy must be an http:// or https:// URL: check ${named.join(', ')}`)
  }
}

function isDoneByNode(env: NodeJS.ProcessEnv): boolean {
  const isAsked = env['NODE_USE_ENV_PROXY'] === '1' || process.execArgv.includes('--use-env-proxy')
  return isAsked && process.allowedNodeEnvironmentFlags.has('--use-env-proxy')
}
