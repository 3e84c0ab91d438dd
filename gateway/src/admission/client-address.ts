import ipaddr from 'ipaddr.js'
import { BlockList, isIP } from 'node:net'

/** Whether the proxy at an address is trusted. `hop` is the number of proxies between it and the gateway. */
export type TrustsProxy = (address: string | undefined, hop: number) => boolean

/** Everything that is not an address shares one allowance. Otherwise each made-up text would get its own. */
const unreadable = 'unreadable'

/**
 * The key under which every limit counts an address: the IPv4 address, or the /64 of an IPv6 address, because one customer
 * usually has a whole /64. Some proxies add the port of the connection, which would give each connection its own limits.
 *
 * @param address as the socket or a proxy reports it; undefined if the connection has been closed
 */
export function limitKeyOf(address: string | undefined): string {
  const bare = addressIn(address)
  if (bare === undefined) return unreadable
  const parsed = ipaddr.process(bare)
  if (parsed instanceof ipaddr.IPv4) return parsed.toString()
  return parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')
}

/**
 * Parses `TRUST_PROXY`: the number of proxies in front of the gateway, or their addresses and CIDRs.
 *
 * @throws Error that names the invalid entry
 */
export function parseTrustedProxies(text: string): TrustsProxy {
  const hops = Number(text)
  if (/^[0-9]+$/.test(text)) return (_address, hop) => hop < hops
  const trusted = new BlockList()
  for (const entry of text.split(',')) {
    const [address = '', bits, ...rest] = entry.trim().split('/')
    const max = isIP(address) === 6 ? 128 : 32
    const prefix = bits === undefined ? max : /^[0-9]{1,3}$/.test(bits) ? Number(bits) : max + 1
    if (isIP(address) === 0 || prefix > max || rest.length > 0) {
      throw new Error(`must be a number, or addresses and CIDRs: ${entry.trim()} is none`)
    }
    trusted.addSubnet(address, prefix, familyOf(address))
  }
  return (address) => {
    const bare = addressIn(address)
    return bare !== undefined && trusted.check(bare, familyOf(bare))
  }
}

const familyOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** The address in an entry of `X-Forwarded-For`, without quotes, brackets, port and zone; undefined if it has none. */
function addressIn(entry: string | undefined): string | undefined {
  if (entry === undefined) return undefined
  const unquoted = entry.trim().replace(/^"(.*)"$/, '$1')
  const [, bracketed, withPort] = /^(?:\[([^\]]*)\](?::[0-9]+)?|([0-9.]+):[0-9]+)$/.exec(unquoted) ?? []
  const bare = (bracketed ?? withPort ?? unquoted).replace(/%.*$/, '')
  return isIP(bare) === 0 ? undefined : bare
}
