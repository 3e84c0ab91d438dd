import { expect, test } from 'vitest'
import { amountText, decimalsOf, mainUnits, minorUnits } from './amounts.ts'

// The currencies that Stripe supports, by their number of decimals in its documentation.
const currencies = {
  0: 'bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf',
  3: 'bhd jod kwd omr tnd',
  2: `usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob brl bsd bwp byn bzd cad cdf chf cny cop crc cve czk dkk dop
    dzd egp etb eur fjd fkp gbp gel ghs gip gmd gtq gyd hkd hnl htg huf idr ils inr isk jmd kes kgs khr kyd kzt lak lbp lkr lrd lsl mad mdl
    mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd pab pen pgk php pkr pln qar ron rsd rub sar sbd scr sek sgd shp sle sos
    srd std szl thb tjs top try ttd twd tzs uah ugx uyu uzs wst xcd xcg yer zar zmw`,
}

const all = Object.entries(currencies).flatMap(([decimals, list]) =>
  list.split(/\s+/).map((currency) => [currency, Number(decimals)] as const),
)

test.each(all)('%s has %i decimals', (currency, decimals) => {
  expect(decimalsOf(currency)).toBe(decimals)
  const main = { 0: '123456', 2: '1234.56', 3: '123.456' }[decimals]!
  expect(mainUnits(123_456, currency)).toBe(main)
  expect(minorUnits(main, currency)).toBe(123_456)
})

test('a currency is in one list only', () => {
  expect(all.length).toBeGreaterThan(140)
  expect(new Set(all.map(([currency]) => currency)).size).toBe(all.length)
})

test.each([
  [4900, 'usd', '49.00 USD'],
  [2980, 'jpy', '2980 JPY'],
  [1230, 'kwd', '1.230 KWD'],
  [500, 'isk', '5.00 ISK'],
  [5, 'eur', '0.05 EUR'],
  [-49, 'eur', '-0.49 EUR'],
  [-4900, 'kwd', '-4.900 KWD'],
  [0, 'jpy', '0 JPY'],
  [Number.MAX_SAFE_INTEGER, 'eur', '90071992547409.91 EUR'],
  [9_223_372_036_854_775_807n, 'eur', '92233720368547758.07 EUR'],
] as const)('%s %s is written %s', (minor, currency, text) => {
  expect(amountText(minor, currency)).toBe(text)
})

test.each([
  ['49', 'eur', 4900],
  ['49.5', 'eur', 4950],
  ['49.50', 'eur', 4950],
  ['49,50', 'eur', 4950],
  ['0.29', 'eur', 29],
  ['1,250', 'eur', 125_000],
  ['1 250.00', 'eur', 125_000],
  ['1\u202f250,00', 'eur', 125_000],
  ['12,345,678.90', 'eur', 1_234_567_890],
  ['0', 'eur', 0],
  ['5000', 'huf', 500_000],
  ['5000', 'ugx', 500_000],
  ['500', 'jpy', 500],
  ['1.234', 'kwd', 1234],
])('%j %s is %i minor units', (text, currency, minor) => {
  expect(minorUnits(text, currency)).toBe(minor)
})

test.each([
  ['49.505', 'eur'],
  ['500.5', 'jpy'],
  ['-1', 'eur'],
  ['', 'eur'],
  ['€49', 'eur'],
  ['4.9.5', 'eur'],
  ['99999999999999999', 'eur'],
])('%j %s is refused, and not rounded', (text, currency) => {
  expect(minorUnits(text, currency)).toBeUndefined()
})
