/** A root key that is compiled into the product, as a key that verifies. Its `kid` is the text itself. */
export interface RootKey {
  readonly kid: string
  readonly x: string
}

/** What keys are believed by: root keys, or nothing but that they came. */
export type Trust = readonly RootKey[] | 'unpinned'

/**
 * Reads the option `rootKey`.
 *
 * @throws TypeError if it is missing or malformed: a product must not be built that believes any key by mistake
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

// 32 bytes in base64url: of the last character the lowest two bits are none of them.
const PATTERN = /^lrk_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$/

function readRootKey(text: unknown): RootKey | null {
  const x = typeof text === 'string' ? PATTERN.exec(text)?.[1] : undefined
  return x === undefined ? null : { kid: `lrk_${x}`, x }
}
