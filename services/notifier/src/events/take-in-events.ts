import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { insertAlert } from '../alerts/alert-queries.ts'
import { recordEvents } from './record-events.ts'

/** Takes in a batch of domain events: those with a webhook type are recorded and sent, alerts are mailed. */
export function takeInEvents(deps: Parameters<typeof recordEvents>[0] & { alertQueued: () => void }) {
  return async (tx: Transaction, received: Received[]): Promise<() => void> => {
    const send = await recordEvents(deps, tx, received)
    const alerts = received.flatMap(({ event: { accountId, payload } }) =>
      payload.case === 'vendorAlert'
        ? [{ accountId, subject: payload.value.subject, text: payload.value.text }]
        : [],
    )
    for (const alert of alerts) await insertAlert(tx, alert)
    return () => {
      send()
      if (alerts.length > 0) deps.alertQueued()
    }
  }
}
