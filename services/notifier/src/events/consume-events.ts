import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { isMember } from '@licensing/proto/closed-sets'
import type { Event } from '@licensing/proto/events'
import { insertAlert } from '../alerts/alert-queries.ts'
import type { NewAlert } from '../alerts/alert-queries.ts'
import { recordEvents } from './record-events.ts'
import type { Recorded } from './record-events.ts'

/** Consumes domain events, with those of accounts that have some in line only where it is to `passLine`. */
export type Consume = (tx: Transaction, received: Received[], passLine: boolean) => Promise<Recorded>

/** Consumes a batch of domain events: those with a webhook type are recorded and sent, alerts are mailed. */
export function consumeEvents(
  deps: Parameters<typeof recordEvents>[0] & { alertQueued: () => void },
): Consume {
  return async (tx, received, passLine) => {
    const { send, inLine } = await recordEvents(deps, tx, received, { passLine })
    const alerts = received.flatMap(({ event }) => (inLine.has(event.accountId) ? [] : alertOf(event)))
    for (const alert of alerts) await insertAlert(tx, alert)
    const sendAll = () => {
      send()
      if (alerts.length > 0) deps.alertQueued()
    }
    return { send: sendAll, inLine }
  }
}

function alertOf({ accountId, applicationId, payload }: Event): NewAlert[] {
  if (payload.case !== 'vendorAlert') return []
  const { kind, subject, text } = payload.value
  return [
    {
      kind: kind !== undefined && isMember('alertKind', kind) ? kind : null,
      accountId,
      applicationId: applicationId || null,
      endpointId: null,
      subject,
      text,
    },
  ]
}
