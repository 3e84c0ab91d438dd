import { promises as dns } from 'node:dns'
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'

/** All addresses of a host name. Rejects if there are none, or with the signal's reason if it aborts first. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<string[]>
export type Lookup = (host: string) => Promise<string[]>

/**
 * Looks names up in the hosts file, then in DNS. It does not use getaddrinfo, which runs on two of the four threads of the pool:
 * four names with unresponsive name servers blocked every other name, even `localhost`, for 20 s (measured).
 */
export function createSystemLookup({
  hostsFile = '/etc/hosts',
  servers,
}: { hostsFile?: string; servers?: string[] } = {}): Lookup {
  const resolver = new dns.Resolver({ timeout: 1000, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const addressesInHostsFile = createHostsFile(hostsFile)
  return async (host) => {
    const named = addressesInHostsFile(host)
    if (named.length > 0) return named
    // RFC 6761: these names never leave the machine.
    if (host === 'localhost' || host.endsWith('.localhost')) return ['127.0.0.1', '::1']

    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (addresses.length > 0) return addresses
    const failures = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason as Error] : [],
    )
    throw (
      failures.find((failure) => !isAbsence(failure)) ?? failures[0] ?? new Error(`${host} has no address`)
    )
  }
}

/** Whether DNS answered that there is no such name or address. */
export const isAbsence = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTFOUND' || error.code === 'ENODATA')

/** Makes one look-up for all simultaneous callers, and caches addresses (not failures) for `lifeMs`. */
export function createResolver(lookup: Lookup, { lifeMs = 30_000, capacity = 10_000 } = {}): Resolve {
  const answers = new Map<string, { until: number; addresses: string[] }>()
  const asked = new Map<string, Promise<string[]>>()

  const ask = async (host: string) => {
    const addresses = await lookup(host)
    answers.delete(host)
    answers.set(host, { until: performance.now() + lifeMs, addresses })
    const oldest = answers.keys().next().value
    if (answers.size > capacity && oldest !== undefined) answers.delete(oldest)
    return addresses
  }

  return (host, signal) => {
    const known = answers.get(host)
    if (known !== undefined && performance.now() < known.until) return Promise.resolve(known.addresses)
    let asking = asked.get(host)
    if (asking === undefined) {
      asking = ask(host).finally(() => asked.delete(host))
      asked.set(host, asking)
    }
    return unlessAborted(asking, signal)
  }
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** The addresses of a name in the hosts file, which is read again when it has changed. A missing file has no names. */
function createHostsFile(path: string): (name: string) => string[] {
  let known = { version: '', names: new Map<string, string[]>() }
  return (name) => {
    const stats = statSync(path, { throwIfNoEntry: false })
    const version = stats === undefined ? '' : `${stats.ino} ${stats.size} ${stats.mtimeMs}`
    if (version !== known.version) {
      known = { version, names: stats === undefined ? new Map() : parse(readFileSync(path, 'utf8')) }
    }
    return known.names.get(name) ?? []
  }
}

function parse(text: string): Map<string, string[]> {
  const addressesOf = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (isIP(address) === 0) continue
    for (const name of names) {
      const key = name.toLowerCase()
      addressesOf.set(key, [...(addressesOf.get(key) ?? []), address])
    }
  }
  return addressesOf
}
