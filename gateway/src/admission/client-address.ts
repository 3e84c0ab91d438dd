import { isIPv6 } from 'node:net'

/**
 * The caller behind an address, for rate limits: the IPv4 address, or the /64 of an IPv6 address, because one customer usually
 * has a whole /64.
 */
export function callerAt(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped) return mapped[1]!
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('%')[0]!.split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const behind = tail === '' ? [] : tail.split(':')
    while (groups.length + behind.length < 8) groups.push('0')
    groups.push(...behind)
  }
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}
