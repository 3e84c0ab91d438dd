import type { UseQueryResult } from '@tanstack/react-query'
import type { Day, Period } from '../../api/overview.ts'
import { useAddress } from '../../address.ts'
import { Figure, Total } from '../../parts/figure.tsx'
import type { Series } from '../../parts/plot.tsx'
import { money } from '../../parts/text.tsx'
import styles from './overview.module.css'
import { sum } from './sum.ts'

interface RevenueProps {
  of: UseQueryResult<Day<'payments'>[]>
  period: Period
}

interface OfCurrency {
  currency: string
  payments: number
  gross: Series
  /** Revenue after refunds and the fees of this service. The fees of the processor are not subtracted. */
  net: Series
}

/** The plot shows one currency, because amounts in several currencies have no common scale. The totals list all currencies. */
export function Revenue({ of: reading, period }: RevenueProps) {
  const { data: days = [] } = reading
  const [{ currency: wanted }, setAddress] = useAddress()
  const all = currenciesOf(days)
  const shown = all.find(({ currency }) => currency === wanted) ?? all[0]
  const total = ({ values, write }: Series) => write?.(sum(values))
  return (
    <Figure
      title="Revenue"
      of={reading}
      kind="parts"
      actions={
        all.length > 1 && (
          <select
            aria-label="Currency of the plot"
            className={styles.currency}
            value={shown?.currency}
            onChange={({ target }) => setAddress({ currency: target.value }, { replace: true })}
          >
            {all.map(({ currency }) => (
              <option key={currency} value={currency}>
                {currency.toUpperCase()}
              </option>
            ))}
          </select>
        )
      }
      figure={
        shown ? (
          <>
            <Total value={total(shown.gross)} name="gross" tone="second" />
            <Total value={total(shown.net)} name="net" tone="first" />
          </>
        ) : (
          '0'
        )
      }
      note={
        shown ? (
          <>
            {all.length > 1 && (
              <>
                {all
                  .filter((one) => one !== shown)
                  .map(({ gross, net }) => `${total(gross)} (net ${total(net)})`)
                  .join(', ')}
                ;{' '}
              </>
            )}
            net is after refunds and fees, in the last {period} days
          </>
        ) : (
          `no payments in the last ${period} days`
        )
      }
      at={days.map(({ at }) => at)}
      series={shown ? [shown.gross, shown.net] : []}
      more={all.filter((one) => one !== shown).flatMap(({ gross, net }) => [gross, net])}
    />
  )
}

/** The currencies, most payments first. */
function currenciesOf(days: readonly Day<'payments'>[]): OfCurrency[] {
  const currencies = [...new Set(days.flatMap(({ values }) => Object.keys(values)))].sort()
  const all = currencies.map((currency): OfCurrency => {
    const written = currency.toUpperCase()
    const write = (minor: number) => money(minor, currency)
    const of = (pick: (values: Day<'payments'>['values'][string]) => number) =>
      days.map(({ values }) => (values[currency] ? pick(values[currency]) : 0))
    const net = of(
      ({ gross_minor: gross, refunded_minor: refunded, fee_minor: fee }) => gross - refunded - fee,
    )
    return {
      currency,
      payments: sum(of(({ count }) => count)),
      gross: {
        name: `${written} gross`,
        values: of(({ gross_minor: gross }) => gross),
        write,
        tone: 'second',
      },
      net: { name: `${written} net`, values: net, write },
    }
  })
  return all.toSorted((a, b) => b.payments - a.payments)
}
