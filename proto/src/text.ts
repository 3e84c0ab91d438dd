/** The minimum and maximum number of characters of a text. */
export interface TextLimit {
  min: number
  max: number
}

/** The length of each kind of text, in characters. Both the gateway and the service that stores the text check it. */
export const textLimits = {
  /** The name of a plan, an application, an account, an API key or an entitlement. */
  name: { min: 1, max: 200 },
  /** A text that the vendor chooses: external_ref, sale_id, legacy_key, price_id, Idempotency-Key. */
  reference: { min: 1, max: 255 },
  /** A search for licences. It is at most as long as a reference; one character would match too much. */
  search: { min: 2, max: 255 },
  entitlementKey: { min: 1, max: 64 },
  /** The vendor's note on an override. */
  note: { min: 0, max: 500 },
  /** Texts that an installed product sends: fingerprint, product_version. */
  product: { min: 1, max: 128 },
  hostName: { min: 1, max: 253 },
  webAddress: { min: 1, max: 2048 },
  emailAddress: { min: 3, max: 254 },
  /** An id that a payment processor has assigned. */
  processorId: { min: 1, max: 255 },
} as const satisfies Record<string, TextLimit>

/**
 * How many characters a text has. A character is a Unicode code point, as PostgreSQL's `char_length` and JSON Schema's
 * `maxLength` count.
 *
 * @example characters('a😀') // 2, where 'a😀'.length is 3
 */
export function characters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

/** Whether PostgreSQL can store a text unchanged: it contains no NUL and no unpaired surrogate. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}

/** The problem of a text that must be storable and within a limit, or undefined if it is valid. */
export function problemOfText(text: string, { min, max }: TextLimit): string | undefined {
  if (!isStorable(text)) return unstorable
  // A code point has one or two UTF-16 units, so most texts need no counting.
  if (text.length <= max && text.length >= 2 * min) return undefined
  const count = characters(text)
  return count < min || count > max ? `must have ${min} to ${max} characters` : undefined
}

export const unstorable = 'must not contain NUL or an unpaired surrogate'

/** The first characters of a text, at most `max`. */
export function firstCharacters(text: string, max: number): string {
  // A character has at most two UTF-16 units.
  return Array.from(text.slice(0, 2 * max))
    .slice(0, max)
    .join('')
}
