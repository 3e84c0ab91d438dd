import http from 'node:http'
import { UsageError } from './failures.ts'

const variables = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'] as const

/**
 * From now on this process sends its requests with `fetch` through the proxy that the environment names, except to the
 * hosts of NO_PROXY. `warn` is called if this version of Node cannot do that.
 *
 * @throws UsageError if the address of the proxy is malformed
 */
export function useProxy(env: NodeJS.ProcessEnv, warn: (message: string) => void): void {
  const named = variables.filter((name) => env[name]?.trim())
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

/** The proxy that requests to an address go through, except to the hosts of NO_PROXY. It is named without its password. */
export function proxyOf(env: NodeJS.ProcessEnv, address: string): string | undefined {
  const ofHttp = ['http_proxy', 'HTTP_PROXY']
  const asked = address.startsWith('https:') ? ['https_proxy', 'HTTPS_PROXY', ...ofHttp] : ofHttp
  const name = asked.find((each) => env[each]?.trim())
  const url = name === undefined ? null : URL.parse(env[name]!)
  return url === null ? undefined : `${name} names the proxy ${url.protocol}//${url.host}`
}

function isDoneByNode(env: NodeJS.ProcessEnv): boolean {
  const isAsked = env['NODE_USE_ENV_PROXY'] === '1' || process.execArgv.includes('--use-env-proxy')
  return isAsked && process.allowedNodeEnvironmentFlags.has('--use-env-proxy')
}
