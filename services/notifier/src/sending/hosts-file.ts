import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'

/** What the hosts file (a missing one is an empty one) says of a name; it is read again when it has changed. */
export function createHostsFile(path: string): (name: string) => string[] {
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
