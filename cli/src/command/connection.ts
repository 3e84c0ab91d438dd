import { UsageError } from './failures.ts'

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
