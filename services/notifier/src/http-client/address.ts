import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
export type Networks = readonly [Address, number][]

/** Why an address is refused, as a noun phrase ("a loopback address"); null if deliveries may be sent to it. */
export type AddressRefusal = (address: string) => string | null

type Rules = { allowed: Networks; denied: Networks; own: ReadonlySet<string> }

const networks = (table: Record<string, string>) =>
  Object.entries(table).map(([cidr, reason]) => ({ network: ipaddr.parseCIDR(cidr), reason }))

// The IANA special-purpose registries, without the few entries that are globally reachable.
const specialIPv4 = networks({
  '0.0.0.0/8': 'an address of "this network"',
  '10.0.0.0/8': 'a private address',
  '100.64.0.0/10': 'a shared (carrier-grade NAT) address',
  '127.0.0.0/8': 'a loopback address',
  '169.254.0.0/16': 'a link-local address',
  '172.16.0.0/12': 'a private address',
  '192.0.0.0/24': 'an address reserved for protocols',
  '192.0.2.0/24': 'a documentation address',
  '192.88.99.0/24': 'a 6to4 relay address',
  '192.168.0.0/16': 'a private address',
  '198.18.0.0/15': 'a benchmarking address',
  '198.51.100.0/24': 'a documentation address',
  '203.0.113.0/24': 'a documentation address',
  '224.0.0.0/4': 'a multicast address',
  '255.255.255.255/32': 'a broadcast address',
  '240.0.0.0/4': 'a reserved address',
})

// The first match counts: a narrow network is listed before a wide one that contains it.
const specialIPv6 = networks({
  '::/128': 'the unspecified address',
  '::1/128': 'a loopback address',
  '::/8': 'a reserved address',
  '100::/64': 'a discard-only address',
  '2001::/32': 'a Teredo address',
  '2001::/23': 'an address reserved for protocols',
  '2001:db8::/32': 'a documentation address',
  '3fff::/20': 'a documentation address',
  '5f00::/16': 'a segment routing address',
  'fc00::/7': 'a private (unique local) address',
  'fe80::/10': 'a link-local address',
  'fec0::/10': 'a site-local address',
  'ff00::/8': 'a multicast address',
})

const globalUnicastIPv6 = ipaddr.parseCIDR('2000::/3')
const nat64 = ipaddr.parseCIDR('64:ff9b::/96')
const sixToFour = ipaddr.parseCIDR('2002::/16')

/** `WEBHOOK_ALLOWED_CIDRS`, `WEBHOOK_DENIED_CIDRS`: networks or single addresses, separated by commas. Throws if an entry is neither. */
export function parseNetworks(list: string): Networks {
  return list
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [address = '', prefix, ...rest] = entry.split('/')
      const version = isIP(address)
      const longest = version === 4 ? 32 : 128
      const bits = prefix === undefined ? longest : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Infinity
      if (version === 0 || rest.length > 0 || bits > longest) {
        throw new Error(`"${entry}" is not a network like 10.0.0.0/8 or fd00::/8`)
      }
      return [ipaddr.parse(address), bits]
    })
}

/** Accepts global unicast addresses and `allowed`. Refuses `denied` and all addresses of this machine. */
export function createAddressRefusal(
  allowed: Networks,
  own: () => ReadonlySet<string> = ownAddresses,
  denied: Networks = [],
): AddressRefusal {
  return (address) => {
    const bare = address.replace(/%.*$/, '')
    if (isIP(bare) === 0) return 'not an IP address'
    return refusalOfAddress(ipaddr.parse(bare), { allowed, denied, own: own() })
  }
}

function refusalOfAddress(address: Address, rules: Rules): string | null {
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress())
    return refusalOfAddress(address.toIPv4Address(), rules)
  const embedded = address instanceof ipaddr.IPv6 ? embeddedIPv4(address) : null
  const ends = embedded === null ? [address] : [address, embedded]
  if (rules.denied.some(([network, bits]) => ends.some((end) => isIn(end, network, bits)))) {
    return 'a denied address'
  }
  if (rules.allowed.some(([network, bits]) => isIn(address, network, bits))) return null

  // A NAT64 translator or a 6to4 tunnel would connect to the embedded address.
  if (embedded !== null) return refusalOfAddress(embedded, rules)

  const special = address instanceof ipaddr.IPv6 ? specialIPv6 : specialIPv4
  const found = special.find(({ network }) => isIn(address, ...network))
  if (found !== undefined) return found.reason
  if (address instanceof ipaddr.IPv6 && !isIn(address, ...globalUnicastIPv6)) return 'a reserved address'
  return rules.own.has(address.toString()) ? 'an address of this service' : null
}

const isIn = (address: Address, network: Address, bits: number) =>
  address.kind() === network.kind() && address.match(network, bits)

function embeddedIPv4(address: ipaddr.IPv6): ipaddr.IPv4 | null {
  const bytes = address.toByteArray()
  if (isIn(address, ...nat64)) return new ipaddr.IPv4(bytes.slice(12, 16))
  if (isIn(address, ...sixToFour)) return new ipaddr.IPv4(bytes.slice(2, 6))
  return null
}

const ownAddressesLifeMs = 30_000
let ownAddressesKnown: { addresses: ReadonlySet<string>; until: number } = { addresses: new Set(), until: 0 }

function ownAddresses(): ReadonlySet<string> {
  if (performance.now() < ownAddressesKnown.until) return ownAddressesKnown.addresses
  const addresses = Object.values(networkInterfaces()).flatMap((entries) =>
    (entries ?? []).map(({ address }) => ipaddr.parse(address.replace(/%.*$/, '')).toString()),
  )
  ownAddressesKnown = { addresses: new Set(addresses), until: performance.now() + ownAddressesLifeMs }
  return ownAddressesKnown.addresses
}
