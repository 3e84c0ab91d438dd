import { characters, textLimits } from '@licensing/proto/text'
import type { AddressRefusal } from './address.ts'
import { isAbsence, type Resolve } from './resolver.ts'
import { type Target, targetOf } from './target.ts'

const longest = textLimits.webAddress.most

type Rules = { resolve: Resolve; refusal: AddressRefusal; timeoutMs?: number }

/** What is wrong with a URL that is to be registered, for the vendor to read, or null. */
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

async function addressProblem(
  target: Target,
  { resolve, refusal, timeoutMs = 3000 }: Rules,
): Promise<string | null> {
  const { host } = target
  if (target.isAddress) {
    const refused = refusal(host)
    return refused && `must lead to a public address; ${host} is ${refused}`
  }
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    // One address that is not public refuses the name: the sender could be given that one at any time.
    const refused = (await resolve(host, signal)).map(refusal).find((reason) => reason !== null)
    return refused === undefined
      ? null
      : `must lead to public addresses alone; ${host} resolves to ${refused}`
  } catch (error) {
    if (signal.aborted)
      return `names a host, ${host}, that did not resolve within ${timeoutMs / 1000} seconds`
    return isAbsence(error)
      ? `names a host, ${host}, that does not resolve to an address`
      : `names a host, ${host}, that could not be resolved`
  }
}
