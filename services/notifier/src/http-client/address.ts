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

// Forms of IPv6 addresses that contain IPv4 addresses, each as the positions of four bytes. An address may have several forms.
const embeddings: { network: [Address, number]; at: number[][]; isTunnel?: true }[] = [
  // IPv4-compatible, and IPv4-translated (SIIT).
  { network: ipaddr.parseCIDR('::/96'), at: [[12, 13, 14, 15]] },
  { network: ipaddr.parseCIDR('::ffff:0:0:0/96'), at: [[12, 13, 14, 15]] },
  // NAT64: the well-known prefix, and the local one, in which the prefix of a translator may have several lengths (RFC 6052).
  { network: ipaddr.parseCIDR('64:ff9b::/96'), at: [[12, 13, 14, 15]], isTunnel: true },
  {
    network: ipaddr.parseCIDR('64:ff9b:1::/48'),
    at: [
      [6, 7, 9, 10],
      [7, 9, 10, 11],
      [9, 10, 11, 12],
      [12, 13, 14, 15],
    ],
  },
  { network: ipaddr.parseCIDR('2002::/16'), at: [[2, 3, 4, 5]], isTunnel: true }, // 6to4
  { network: ipaddr.parseCIDR('2001::/32'), at: [[4, 5, 6, 7]] }, // Teredo: the server
]
const teredo = ipaddr.parseCIDR('2001::/32')

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
  const embedded = address instanceof ipaddr.IPv6 ? embeddedIPv4s(address) : []
  const ends = [address, ...embedded]
  if (rules.denied.some(([network, bits]) => ends.some((end) => isIn(end, network, bits)))) {
    return 'a denied address'
  }
  if (rules.allowed.some(([network, bits]) => isIn(address, network, bits))) return null

  const refusal = isTunnel(address) ? null : specialRefusal(address, rules)
  if (refusal !== null) return refusal
  // A translator or a tunnel would connect to the embedded address.
  for (const end of embedded) {
    const refusal = refusalOfAddress(end, rules)
    if (refusal !== null) return refusal
  }
  return null
}

function specialRefusal(address: Address, { own }: Rules): string | null {
  const special = address instanceof ipaddr.IPv6 ? specialIPv6 : specialIPv4
  const found = special.find(({ network }) => isIn(address, ...network))
  if (found !== undefined) return found.reason
  if (address instanceof ipaddr.IPv6 && !isIn(address, ...globalUnicastIPv6)) return 'a reserved address'
  return own.has(address.toString()) ? 'an address of this service' : null
}

const isIn = (address: Address, network: Address, bits: number) =>
  address.kind() === network.kind() && address.match(network, bits)

const isTunnel = (address: Address) =>
  embeddings.some(({ network, isTunnel }) => isTunnel && isIn(address, ...network))

/** All IPv4 addresses that an IPv6 address contains, except in the mapped form. */
function embeddedIPv4s(address: ipaddr.IPv6): ipaddr.IPv4[] {
  const bytes = address.toByteArray()
  const found = embeddings
    .filter(({ network }) => isIn(address, ...network))
    .flatMap(({ at }) => at.map((positions) => positions.map((position) => bytes[position]!)))
  const last = bytes.slice(12)
  // Teredo inverts the bits of its client.
  if (isIn(address, ...teredo)) found.push(last.map((byte) => byte ^ 0xff))
  // ISATAP: any network with the interface id 0:5efe:a.b.c.d, of which two bits say whether it is universal or of a group.
  if ((bytes[8]! & 0xfc) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe) found.push(last)
  return found.map((four) => new ipaddr.IPv4(four))
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
