import { fromUUID, toUUID, typeidUnboxed } from 'typeid-js'
import type { TypeId } from 'typeid-js'

/** The prefixes of all ids. */
export type IdPrefix =
  | 'acct'
  | 'app'
  | 'key'
  | 'usr'
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
  | 'alrt'
  | 'aud'

/**
 * A new id: prefix, underscore, UUIDv7 in 26 characters of lower-case base 32. Each id of a process is greater than the last.
 *
 * @example newId('lic') // lic_01k9…
 */
export function newId(prefix: IdPrefix): string {
  return typeidUnboxed(prefix)
}

/**
 * The id of a numbered row, made of its time and number. With number 0 it is the least id that `newId` can make at that time
 * or later.
 *
 * @param number under 2^62
 */
export function idOf(prefix: IdPrefix, at: Date, number: bigint): string {
  const time = Math.max(0, at.getTime()).toString(16).padStart(12, '0').slice(-12)
  const low = (number | (1n << 63n)).toString(16)
  return fromUUID(`${time.slice(0, 8)}-${time.slice(8)}-7000-${low.slice(0, 4)}-${low.slice(4)}`, prefix)
}

/** The number in an id made by `idOf`. */
export function numberOf(id: string): bigint {
  const low = toUUID(id as TypeId<string>)
    .slice(19)
    .replace('-', '')
  return BigInt(`0x${low}`) & ((1n << 62n) - 1n)
}

/** The time at which an id was made. */
export function timeOf(id: string): Date {
  return new Date(
    Number.parseInt(
      toUUID(id as TypeId<string>)
        .replace('-', '')
        .slice(0, 12),
      16,
    ),
  )
}

/** Whether a string has the form of an id with this prefix. If not, no resource has this id. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return (
    text.length === prefix.length + 27 &&
    text.startsWith(`${prefix}_`) &&
    /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text.slice(-26))
  )
}
