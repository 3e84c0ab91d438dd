/** Keys shared with a peer, by its name; the first signs, each verifies. */
export type PeerKeys = ReadonlyMap<string, readonly Buffer[]>

/**
 * Reads `name:key` pairs, separated by commas; a name may be there several times while its key is being changed.
 *
 * @throws Error that repeats no key
 */
export function parsePeerKeys(text: string): PeerKeys {
  const keys = new Map<string, Buffer[]>()
  for (const entry of text.split(',')) {
    const [, name, encoded] = /^\s*([a-z]+):([A-Za-z0-9_-]{43})\s*$/.exec(entry) ?? []
    if (name === undefined || encoded === undefined) {
      throw new Error('must be name:key, separated by commas, each key 32 bytes in base64url, 43 characters')
    }
    keys.set(name, [...(keys.get(name) ?? []), Buffer.from(encoded, 'base64url')])
  }
  return keys
}
