/** The least and the most characters of a text. */
export interface TextLimit {
  least: number
  most: number
}

/** How long each kind of text may be, in characters; the gateway and the service that stores it both ask here. */
export const textLimits = {
  /** What people call something: a plan, an application, an account, an API key, an entitlement. */
  name: { least: 1, most: 200 },
  /** A reference of the vendor's: external_ref, sale_id, legacy_key, price_id, Idempotency-Key. */
  reference: { least: 1, most: 255 },
  /** What a licence is searched by: anything that has the length of a reference, and enough to mean something. */
  search: { least: 2, most: 255 },
  entitlementKey: { least: 1, most: 64 },
  /** What a vendor writes beside an override, for other people. */
  note: { least: 0, most: 500 },
  /** What an installed product says of itself: fingerprint, product_version. */
  product: { least: 1, most: 128 },
  hostName: { least: 1, most: 253 },
  webAddress: { least: 1, most: 2048 },
  emailAddress: { least: 3, most: 254 },
  /** An id that a payment processor gives. */
  processorId: { least: 1, most: 255 },
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

/** Whether PostgreSQL's text can hold it as it is: without NUL and without half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}

/** What is wrong with a text that has to be storable and within a limit, or undefined where nothing is. */
export function problemOfText(text: string, { least, most }: TextLimit): string | undefined {
  if (!isStorable(text)) return unstorable
  // Code points never outnumber UTF-16 units, and are at least half as many: most texts need no counting.
  if (text.length <= most && text.length >= 2 * least) return undefined
  const count = characters(text)
  return count < least || count > most ? `must have ${least} to ${most} characters` : undefined
}

export const unstorable = 'must not contain NUL or an unpaired surrogate'

/** The beginning of a text, whole characters of it. */
export function firstCharacters(text: string, most: number): string {
  // A character has at most two UTF-16 units.
  return Array.from(text.slice(0, 2 * most))
    .slice(0, most)
    .join('')
}
