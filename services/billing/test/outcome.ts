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
  harness: Pick<Harness, 'billing' | 'licensing' | 'events'>,
  vendor: Vendor,
): Promise<Outcome> {
  const licences = await licencesOf(harness, vendor)
  const refunds = await refundsOf(harness, vendor)
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
