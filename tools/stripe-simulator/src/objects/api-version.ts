import type { SimulatedEvent } from './event.ts'

/** The version of every answer and of every delivered event. */
export const apiVersion = '2026-10-28.endive'

/** From this version on an invoice names its subscription in `parent`, and a charge no longer names its invoice. */
const basil = '2025-03-31'

type Members = Record<string, unknown>

/** Finds the invoice that a payment intent pays. */
export type InvoiceOf = (paymentIntent: string) => string | undefined

/**
 * An event as the lists of events have it: in the API version of the account, whatever the version of the request is. Only
 * the members that name other objects, and periods of subscriptions, are converted for versions before basil.
 */
export function eventAsOfVersion(
  version: string,
  event: SimulatedEvent,
  invoiceOf: InvoiceOf,
): SimulatedEvent {
  const { data } = event
  const object = version >= basil ? data.object : beforeBasil(data.object as Members, invoiceOf)
  return { ...event, api_version: version, data: { ...data, object } }
}

function beforeBasil(members: Members, invoiceOf: InvoiceOf): object {
  switch (members['object']) {
    case 'charge':
      return { ...members, invoice: invoiceOf(String(members['payment_intent'])) ?? null }
    case 'payment_intent':
      return { ...members, invoice: invoiceOf(String(members['id'])) ?? null }
    case 'invoice': {
      const { parent, ...rest } = members
      const details = Object((parent as Members | null)?.['subscription_details']) as Members
      return {
        ...rest,
        subscription: details['subscription'] ?? null,
        subscription_details: { metadata: details['metadata'] ?? {} },
        paid: members['status'] === 'paid',
      }
    }
    case 'subscription': {
      const items = members['items'] as { data: Members[] }
      const [first] = items.data
      return {
        ...members,
        items: { ...items, data: items.data.map(withoutPeriod) },
        current_period_end: first?.['current_period_end'],
        current_period_start: first?.['current_period_start'],
      }
    }
    default:
      return members
  }
}

function withoutPeriod({
  current_period_end: _end,
  current_period_start: _start,
  ...item
}: Members): Members {
  return item
}
