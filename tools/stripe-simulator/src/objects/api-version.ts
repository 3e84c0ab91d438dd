import type { SimulatedEvent } from './event.ts'

/** The version of every answer and of every delivered event. */
export const apiVersion = '2026-10-28.endive'

/** From this version on an invoice names its subscription in `parent`, and items have the periods of a subscription. */
const basil = '2025-03-31'

type Members = Record<string, unknown>

/**
 * An event as the lists of events have it: in the API version of the account, whatever the version of the request is. Only
 * the members that billing needs and that versions before basil have elsewhere are converted.
 */
export function eventAsOfVersion(version: string, event: SimulatedEvent): SimulatedEvent {
  const { data } = event
  const object = version >= basil ? data.object : beforeBasil(data.object as Members)
  return { ...event, api_version: version, data: { ...data, object } }
}

function beforeBasil(members: Members): object {
  if (members['object'] === 'invoice') {
    const { parent, ...rest } = members
    const details = Object((parent as Members | null)?.['subscription_details']) as Members
    return { ...rest, subscription: details['subscription'] ?? null, paid: members['status'] === 'paid' }
  }
  if (members['object'] !== 'subscription') return members
  const items = members['items'] as { data: Members[] }
  const withoutPeriods = items.data.map(
    ({ current_period_start: _start, current_period_end: _end, ...item }) => item,
  )
  const { current_period_start, current_period_end } = items.data[0] ?? {}
  return { ...members, items: { ...items, data: withoutPeriods }, current_period_start, current_period_end }
}
