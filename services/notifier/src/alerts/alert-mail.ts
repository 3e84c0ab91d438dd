import { isMember } from '@licensing/proto/closed-sets'
import type { AlertKind } from '@licensing/proto/closed-sets'
import type { WaitingAlert } from './alert-queries.ts'

const maxInFull = 20
const maxTextLength = 2_000

// Subjects contain no text of a vendor: the recipient would think that the operator wrote it.
const titles: Record<AlertKind, string> = {
  endpoint_failing: 'Webhook endpoint failing',
  endpoint_disabling: 'Webhook endpoint close to its end',
  endpoint_disabled: 'Webhook endpoint disabled',
  refund_reversed: 'A refund failed',
  processor_event_parked: 'An event of the payment processor cannot be handled',
  processor_events_missed: 'Events of the payment processor may have been missed',
  processor_disconnected: 'The payment processor was disconnected',
  renewal_without_licence: 'A renewal was paid without an active licence',
}

/**
 * One mail for all waiting alerts of an account.
 *
 * @param alerts at least one, oldest first
 * @param unlisted how many earlier alerts the mail counts without listing them
 */
export function alertMail(
  alerts: WaitingAlert[],
  unlisted: number,
): { subject: string; text: string; reference: string } {
  const [first, last] = [alerts[0]!, alerts.at(-1)!]
  const reference = `alerts-${first.id}-${last.id}-${alerts.length}-${first.created_at.getTime()}`
  if (alerts.length === 1 && unlisted === 0) {
    return { subject: titleOf(first), text: textOf(first), reference }
  }
  const count = alerts.length + unlisted
  return {
    // The subject contains each kind once.
    subject: `${count} alerts: ${[...new Set(alerts.map(titleOf))].join('; ')}`,
    text: [
      `${count} alerts since ${first.created_at.toISOString()}. At most six mails an hour are sent for an account, so they come together.`,
      ...alerts.slice(0, maxInFull).map((alert, i) => `${i + 1}. ${lineOf(alert)}\n\n${textOf(alert)}`),
      ...listOf(alerts.slice(maxInFull)),
      ...(unlisted > 0 ? [`${unlisted} more alerts are not listed here.`] : []),
      'All alerts with their texts: the portal’s overview, or GET /v1/alerts.',
    ].join('\n\n'),
    reference,
  }
}

function listOf(alerts: WaitingAlert[]): string[] {
  return alerts.length === 0 ? [] : [['Without their texts:', ...alerts.map(lineOf)].join('\n')]
}

function lineOf(alert: WaitingAlert): string {
  const { created_at: at, application_id: applicationId, endpoint_id: endpointId } = alert
  return [at.toISOString(), titleOf(alert), applicationId, endpointId].filter(Boolean).join('  ')
}

function titleOf({ kind }: WaitingAlert): string {
  // A replica of a later release may have inserted the alert.
  return isMember('alertKind', kind) ? titles[kind] : 'Alert'
}

function textOf({ text }: WaitingAlert): string {
  // eslint-disable-next-line no-control-regex
  return text.slice(0, maxTextLength).replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')
}
