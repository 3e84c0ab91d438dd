// Stripe's own lists; ISK and UGX are sent with two decimals that are always 00.
const withoutDecimals = new Set('bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf'.split(' '))
const withThreeDecimals = new Set('bhd jod kwd omr tnd'.split(' '))

/** `4900, usd` is `49.00 USD`, `2980, jpy` is `2980 JPY`. */
export function formatMoney(amountMinor: number, currency: string): string {
  const decimals = withoutDecimals.has(currency) ? 0 : withThreeDecimals.has(currency) ? 3 : 2
  return `${(amountMinor / 10 ** decimals).toFixed(decimals)} ${currency.toUpperCase()}`
}
