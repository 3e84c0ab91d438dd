import { typeidUnboxed } from 'typeid-js'

/** The prefixes of all ids. */
export type IdPrefix =
  | 'acct'
  | 'app'
  | 'key'
  | 'ent'
  | 'pln'
  | 'lic'
  | 'act'
  | 'whe'
  | 'evt'
  | 'dlv'
  | 'cs'
  | 'pay'
  | 'rfd'
  | 'sale'
  | 'fee'

/**
 * A new id: prefix, underscore, UUIDv7 in 26 characters of lower-case base 32. Ids made by one process grow.
 *
 * @example newId('lic') // lic_01k9…
 */
export function newId(prefix: IdPrefix): string {
  return typeidUnboxed(prefix)
}

/** Whether a string has the form of an id with this prefix; what has not cannot exist. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return (
    text.length === prefix.length + 27 &&
    text.startsWith(`${prefix}_`) &&
    /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text.slice(-26))
  )
}
