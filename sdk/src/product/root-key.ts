/** A root key that is compiled into the product, as a key that verifies. Its `kid` is the text itself. */
export interface RootKey {
  readonly kid: string
  readonly x: string
}

/** The root keys that must have signed other keys, or `unpinned` to trust all keys. */
export type Trust = readonly RootKey[] | 'unpinned'

/**
 * Reads the option `rootKey`.
 *
 * @throws TypeError if it is missing or malformed, so that no product trusts any key by mistake
 */
export function readTrust(given: unknown): Trust {
  if (given === 'unpinned') return given
  const texts: unknown[] = Array.isArray(given) ? given : [given]
  const keys = texts.map(readRootKey)
  if (keys.length === 0 || keys.some((key) => key === null)) {
    throw new TypeError(
      "rootKey must be the application's root_key (GET /v1/apps/{app_id}), or several; 'unpinned' does without, and lets anyone who can edit the store license the product",
    )
  }
  return keys as RootKey[]
}

// 32 bytes in base64url: the last two bits of the last character are unused, and must be 0.
const PATTERN = /^lrk_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$/

function readRootKey(text: unknown): RootKey | null {
  const x = typeof text === 'string' ? PATTERN.exec(text)?.[1] : undefined
  return x === undefined ? null : { kid: `lrk_${x}`, x }
}
