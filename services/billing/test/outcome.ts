import { expect } from 'vitest'
import type { Harness } from './harness.ts'
import type { Vendor } from './vendor.ts'
import { ledgerOf, licencesOf, refundsOf } from './shop.ts'

/** The result of a story, without the ids and times that differ from run to run. */
export interface Outcome {
  licences: string[]
  ledger: string[]
  refunds: string[]
  sent: string[]
}

export async function outcomeOf(
  harness: Pick<Harness, 'billing' | 'licensing' | 'events' | 'sql'>,
  vendor: Vendor,
): Promise<Outcome> {
  const licences = await licencesOf(harness, vendor)
  const refunds = await refundsOf(harness, vendor)
  expect(await wrongDays(harness, vendor)).toEqual([])
  return {
    licences: licences
      .map(({ status, statusReason }) => [status, statusReason].filter(Boolean).join(' '))
      .sort(),
    ledger: (await ledgerOf(harness, vendor)).sort(),
    refunds: refunds.map((refund) => `${refund.lane} ${refund.amount} ${refund.status}`).sort(),
    sent: harness.events
      .raw(vendor.accountId)
      .flatMap(({ payload }) =>
        payload.case === 'vendorAlert' ? [`alert ${payload.value.subject.slice(0, 15)}`] : [],
      )
      .concat(
        harness.events
          .of(vendor.accountId)
          .map((event) =>
            [event.type, event['lane'], event['amount'], event['reason']].filter(Boolean).join(' '),
          ),
      )
      .sort(),
  }
}

/** Days that do not count the vendor's payments, refunds and fees exactly once. */
function wrongDays({ sql }: Pick<Harness, 'sql'>, { accountId }: Vendor) {
  return sql`
    with own as (
      select *, (coalesce(charged_at, paid_at) at time zone 'UTC')::date as day from payments where account_id = ${accountId}
    )
    select day::text, currency, sum(count) as count, sum(gross) as gross, sum(refunded) as refunded, sum(fees) as fees
    from (
      select day, currency, 1 as count, amount as gross, 0 as refunded, 0 as fees from own
      union all
      select (occurred_at at time zone 'UTC')::date, currency, 0, 0, amount, 0 from refunds
      where account_id = ${accountId} and (kind = 'chargeback' or status = 'succeeded')
      union all
      select day, f.currency, 0, 0, 0, amount_minor from own join fee_entries f on f.payment_id = own.id
      union all
      select day, currency, -count, -gross_minor, -refunded_minor, -fee_minor from payment_days where account_id = ${accountId}
      union all
      select day, currency, -count, -gross_minor, -refunded_minor, -fee_minor from payment_day_changes
      where account_id = ${accountId}
    ) each
    group by 1, 2 having (sum(count), sum(gross), sum(refunded), sum(fees)) <> (0, 0, 0, 0)`
}
