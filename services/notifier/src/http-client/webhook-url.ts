import { isIP } from 'node:net'
import { characters, textLimits } from '@licensing/proto/text'
import type { AddressRefusal } from './address.ts'
import type { Resolve } from './resolver.ts'

/** The parts of a webhook URL that a connection and a request need. */
export type Target = {
  url: string
  origin: string
  /** The host name in ASCII without a trailing dot, or the bare IP address. */
  host: string
  isAddress: boolean
  port: number
  path: string
}

/** The URL parser normalises every notation of an address (2130706433, 0x7f.1, 127.1). */
export function targetOf(text: string): Target {
  const url = new URL(text)
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname.replace(/\.$/, '')
  const version = isIP(host)
  const port = url.port === '' ? 443 : Number(url.port)
  const authority = version === 6 ? `[${host}]` : host
  const origin = port === 443 ? `https://${authority}` : `https://${authority}:${port}`
  return { url: text, origin, host, isAddress: version !== 0, port, path: url.pathname + url.search }
}

const longest = textLimits.webAddress.max

type Rules = {
  resolve: Resolve
  refusal: AddressRefusal
  /** Called with the reason why a host is refused, which the vendor may not see. */
  refused: (host: string, reason: string) => void
  timeoutMs?: number
}

/** Why a URL cannot be registered, as a text for the vendor; null if it can. */
export async function webhookUrlProblem(text: string, rules: Rules): Promise<string | null> {
  return formProblem(text) ?? (await addressProblem(targetOf(text), rules))
}

function formProblem(text: string): string | null {
  if (characters(text) > longest) return `must have at most ${longest} characters`
  if (/[\s\p{Cc}]/u.test(text)) return 'must not contain spaces or control characters'
  const url = URL.parse(text)
  if (url === null) return 'must be an absolute URL such as https://example.com/webhooks'
  if (url.protocol !== 'https:') return 'must use https'
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password'
  if (url.href.includes('#')) return 'must not contain a fragment (#…)'
  if (characters(url.href) > longest)
    return `must have at most ${longest} characters, also once it is percent-encoded`
  if (url.port === '0') return 'must not name port 0'
  return null
}

/**
 * One sentence for every host that is refused, also for a host that does not exist. Otherwise a vendor could find out which
 * names exist in the operator's network, and to which addresses they resolve.
 */
async function addressProblem(target: Target, rules: Rules): Promise<string | null> {
  const { timeoutMs = 3000 } = rules
  const reason = await refusalOf(target, rules, timeoutMs)
  if (reason === null) return null
  rules.refused(target.host, reason)
  return `must lead to a public address: its host must resolve to public addresses only, within ${timeoutMs / 1000} seconds`
}

async function refusalOf(
  { host, isAddress }: Target,
  { resolve, refusal }: Rules,
  timeoutMs: number,
): Promise<string | null> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const addresses = isAddress ? [host] : await resolve(host, signal)
    // One address that is not public is enough to refuse the name, because a delivery might connect to that address.
    for (const address of addresses) {
      const why = refusal(address)
      if (why !== null) return `${address} is ${why}`
    }
    return addresses.length === 0 ? 'it has no address' : null
  } catch (error) {
    return signal.aborted ? 'it did not resolve in time' : `it could not be resolved: ${String(error)}`
  }
}
