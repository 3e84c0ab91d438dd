/** Keys shared with each peer, by its name. The first key of a peer signs; all verify. */
export type PeerKeys = ReadonlyMap<string, readonly Buffer[]>

/**
 * Reads `name:key` pairs, separated by commas. A name may appear several times while its key is being changed.
 *
 * @throws Error; its message contains no key
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
