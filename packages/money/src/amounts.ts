// From Stripe's documentation, "Supported currencies". Every other currency has two decimals in its API, also ISK and UGX, which have no
// decimals in practice: 5 ISK is sent as 500. HUF and TWD have no decimals only in payouts.
const withoutDecimals = new Set('bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf'.split(' '))
const withThreeDecimals = new Set('bhd jod kwd omr tnd'.split(' '))

/**
 * The number of decimals of a currency's amounts in minor units. `Intl` is not suitable: it has the decimals that people write, and its
 * data change with the version of Node.
 *
 * @param currency ISO 4217, in lower case
 */
export function decimalsOf(currency: string): 0 | 2 | 3 {
  if (withoutDecimals.has(currency)) return 0
  return withThreeDecimals.has(currency) ? 3 : 2
}

/**
 * Converts an amount in minor units to a decimal number in main units. It is exact, because it does not divide.
 *
 * @example mainUnits(4900, 'usd') === '49.00'
 */
export function mainUnits(minor: number | bigint, currency: string): `${number}` {
  const decimals = decimalsOf(currency)
  const digits = String(minor)
    .replace('-', '')
    .padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals)
  return `${minor < 0 ? '-' : ''}${whole}${fraction && `.${fraction}`}` as `${number}`
}

/** `4900, usd` is `49.00 USD`, `2980, jpy` is `2980 JPY`. */
export function amountText(minor: number | bigint, currency: string): string {
  return `${mainUnits(minor, currency)} ${currency.toUpperCase()}`
}

/**
 * Converts an amount that a person wrote in main units to minor units. Returns undefined if the text is not an amount. It is exact, because
 * it does not multiply.
 *
 * @example minorUnits('49.5', 'usd') === 4950
 */
export function minorUnits(text: string, currency: string): number | undefined {
  const decimals = decimalsOf(currency)
  const parts = /^(\d{1,3}(?:,\d{3})+|\d+)(?:[.,](\d+))?$/.exec(text.replaceAll(/\s/g, ''))
  if (!parts) return undefined
  const [, whole = '', fraction = ''] = parts
  if (fraction.length > decimals) return undefined
  const minor = Number(whole.replaceAll(',', '') + fraction.padEnd(decimals, '0'))
  return Number.isSafeInteger(minor) ? minor : undefined
}
