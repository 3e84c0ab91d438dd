/**
 * An amount in main units as people write it, in minor units; undefined where it is none. Exact: no fraction is
 * calculated with.
 *
 * @param digits how many digits of the currency are minor units
 * @example minorOf('49.5', 2) === 4950
 */
export function minorOf(text: string, digits: number): number | undefined {
  const plain = text.replaceAll(/[\s\u202f\u00a0]/g, '')
  const parts = /^(\d{1,3}(?:,\d{3})+|\d+)(?:[.,](\d+))?$/.exec(plain)
  if (!parts) return undefined
  const [, whole = '', fraction = ''] = parts
  if (fraction.length > digits) return undefined
  const minor = Number(whole.replaceAll(',', '') + fraction.padEnd(digits, '0'))
  return Number.isSafeInteger(minor) ? minor : undefined
}
