import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { isOver, type LicenceDetail } from './licences.ts'

type Sold = Pick<LicenceDetail, 'id' | 'application_id' | 'external_ref' | 'updated_at'>

/** The licence that a sale to the same customer changes: the newest that can be paid for; null if there is none. */
export const paidLicenceQuery = ({ application_id: appId, external_ref: reference }: Sold) =>
  queryOptions({
    queryKey: ['paid-licence', appId, reference],
    queryFn: async ({ signal }) => {
      const request = { path: { app_id: appId }, query: { external_ref: reference, limit: 200 }, signal }
      for await (const licence of api.rows('/v1/apps/{app_id}/licences', request)) {
        if (!isOver[licence.status]) return licence.id
      }
      return null
    },
    staleTime: 0,
  })

interface PlanChange {
  planId: string
  expiresOn: string | null
  /** Part of the sale's id. When the user tries again, it stays the same. */
  key: string
  openedAt: number
}

/** Records a sale of amount 0, which gives the licence another plan. */
export async function changePlan(
  licence: Sold,
  { planId, expiresOn, key, openedAt }: PlanChange,
): Promise<void> {
  const { id, application_id: appId, external_ref: reference } = licence
  // The latest sale decides the plan. The clock of this computer may be behind the service's.
  const occurredAt = Math.max(openedAt, Date.parse(licence.updated_at) + 1)
  const sale = await api.post('/v1/apps/{app_id}/sale-events', {
    path: { app_id: appId },
    body: {
      // If the user chooses another plan or end, it is another sale.
      sale_id: `plan-change-${key}-${planId}-${expiresOn ?? ''}`,
      external_ref: reference,
      plan_id: planId,
      amount: 0,
      currency: await currencyOf(licence),
      occurred_at: new Date(occurredAt).toISOString(),
      ...(expiresOn !== null && { expires_on: expiresOn }),
    },
  })
  const { plan_id: newPlanId } = await api.get('/v1/licences/{licence_id}', { path: { licence_id: id } })
  if (sale.licence_id === id && newPlanId === planId) return
  if (sale.licence_id === null) throw new Error('The sale is recorded, but the plan cannot be sold now')
  if (sale.licence_id !== id)
    throw new Error(`The sale changed another licence of the customer: ${sale.licence_id}`)
  throw new Error('The sale is recorded, but a later purchase of the customer decides the plan')
}

/** The currency of the vendor's last payment, so that the sale of 0 adds no other currency to the reports. */
async function currencyOf({ id, application_id: appId }: Sold): Promise<string> {
  for (const filter of [{ licence: id }, {}]) {
    const { data } = await api.get('/v1/apps/{app_id}/payments', {
      path: { app_id: appId },
      query: { ...filter, limit: 1 },
    })
    if (data[0]) return data[0].currency
  }
  return 'eur'
}
