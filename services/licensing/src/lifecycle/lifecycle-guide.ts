import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { webhookTypeOf } from '@licensing/proto/webhook-events'
import { initialStatus, lifecycle, statuses } from './licence.ts'
import type { Cause, Transition } from './licence.ts'

/** `write-lifecycle-guide.ts` writes this file. */
export const guideFile = new URL('../../../../docs/guides/lifecycle.md', import.meta.url)

const causes: Readonly<Record<Cause, string>> = {
  suspend: 'you suspend it',
  reactivate: 'you reactivate it',
  revoke: 'you revoke it',
  retire: 'you retire it',
  extended: 'you give it a later expiry date',
  plan_archived: 'its plan is archived',
  expiry_passed: 'its expiry date passes',
  payment_failed: 'renewals fail repeatedly',
  inquiry_opened: 'an inquiry is opened about its payment',
  inquiry_closed: 'the inquiry is closed in your favour',
  refunded: 'a full refund or a chargeback',
  partially_refunded: 'a partial refund',
  canceled: 'its subscription is cancelled',
  paid: 'the customer buys again',
  purchase_replaced: 'an earlier purchase takes over',
  renewed: 'a renewal is paid',
  price_changed: 'its subscription moves to another price',
  payment_recovered: 'failed payments are paid',
  moved_to_retired_plan: 'it changes to a retired plan',
  replaced_on_retired_plan: 'an earlier purchase of a retired plan takes over',
}

const meanings: Readonly<Record<LicenceStatus, string>> = {
  active: 'valid, with the values of its snapshot',
  downgraded: 'valid, with the default of every entitlement',
  suspended: 'not valid until it is reactivated; `status_reason` says why',
  expired: 'not valid: the expiry date has passed, or the subscription was cancelled',
  revoked: 'permanently not valid; online products stop within the check interval',
  retired: 'permanently not valid; taken out of use',
}

/** The guide to the lifecycle, generated from the table of transitions. */
export function lifecycleGuide(): string {
  return `# The lifecycle of a licence

Every status of a licence, every change of status, and the event that is sent.

## Statuses

| status | meaning | entitlements in the product |
| --- | --- | --- |
${closedSets.licenceStatus.map((status) => `| \`${status}\` | ${meanings[status]} | ${statuses[status].grants} |`).join('\n')}

A new licence is \`active\` (${Object.keys(initialStatus).join(', ')}).

## Diagram

Every change from and to \`active\`. A licence that is \`suspended\`, \`expired\` or \`downgraded\` can also change from one of these to another, and be
revoked and retired: the [table](#transitions) has every change.

\`\`\`mermaid
stateDiagram-v2
    [*] --> active
${edges().join('\n')}
\`\`\`

## Transitions

| when | from | to | event |
| --- | --- | --- | --- |
${rows().join('\n')}

- "As before": the status before the licence expired.
- A licence on a retired plan cannot become active.
- If the customer has several purchases, the status also depends on the others: [payments](payments.md).
- A verb that the status does not allow is refused with 409 \`conflict\`. The error contains the \`current\` status and the \`allowed\` verbs.
- Revoking a revoked licence and retiring a retired licence change nothing. A revocation cannot be undone.

## When the product notices a change

- A revocation: within the check interval (15 minutes by default), through the revocation list.
- Every other change: at the next token refresh. Access ends with the current token, after 24 hours at most.
`
}

/** The transitions from and to `active`, and those of a revoked licence. With all transitions the diagram is unreadable. */
function edges(): string[] {
  const labels = new Map<string, Set<string>>()
  for (const [cause, transitions] of Object.entries(lifecycle)) {
    for (const { from, to, where } of transitions as readonly Transition[]) {
      const target = to === 'former' ? (where?.expiredFrom ?? 'active') : to
      for (const status of from) {
        if (target === 'same' || target === status) continue
        if (status !== 'active' && target !== 'active' && status !== 'revoked') continue
        const edge = `${status} --> ${target}`
        labels.set(edge, (labels.get(edge) ?? new Set()).add(causes[cause as Cause]))
      }
    }
  }
  return [...labels].map(([edge, reasons]) => `    ${edge}: ${[...reasons].join('<br/>')}`)
}

function rows(): string[] {
  return Object.entries(lifecycle).flatMap(([cause, transitions]) => {
    const grouped = new Map<string, Set<string>>()
    for (const { from, to, emits } of transitions as readonly Transition[]) {
      const target = to === 'former' ? 'as before' : to === 'same' ? 'the same' : `\`${to}\``
      const event = emits === undefined ? 'none' : `\`${webhookTypeOf(emits)}\``
      const key = `${target} | ${event}`
      const froms = grouped.get(key) ?? new Set<string>()
      for (const status of from) froms.add(`\`${status}\``)
      grouped.set(key, froms)
    }
    return [...grouped].map(
      ([result, froms]) => `| ${causes[cause as Cause]} | ${[...froms].join(', ')} | ${result} |`,
    )
  })
}
