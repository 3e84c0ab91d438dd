import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { closedSets } from '@licensing/proto/closed-sets'
import { webhookTypeOf } from '@licensing/proto/webhook-events'
import { announcements, initialStatus, statuses, statusRules } from './licence.ts'
import type { Hold, PurchaseState } from './licence.ts'

/** `write-lifecycle-guide.ts` writes this file. */
export const guideFile = new URL('../../../../docs/guides/lifecycle.md', import.meta.url)

/** When a rule starts to apply to a licence, and when it stops. */
interface Words {
  from: string
  until: string
}

const never = { until: 'never' }
const paid = 'a renewal is paid, or the customer buys again'

const ofHolds: Readonly<Record<Exclude<Hold, 'none'>, Words>> = {
  retired: { from: 'you retire it', ...never },
  revoked: { from: 'you revoke it', ...never },
  manual: { from: 'you suspend it', until: 'you reactivate it' },
  plan_archived: { from: 'its plan is archived', until: 'you reactivate it, after you restored the plan' },
}

const ofPurchases: Readonly<Record<Exclude<PurchaseState, 'paid'>, Words>> = {
  refunded: { from: 'a full refund or a chargeback', ...never },
  cancelled: {
    from: 'its subscription is cancelled',
    until: 'the customer buys again, or you set a later expiry date',
  },
  payment_failed: { from: 'renewals fail repeatedly', until: `you reactivate it, ${paid}` },
  inquiry_opened: {
    from: 'an inquiry is opened about its payment',
    until: 'it is closed in your favour, or you reactivate the licence',
  },
  partially_refunded: { from: 'a partial refund', until: paid },
}

const ofEnd: Words = {
  from: 'its expiry date passes',
  until: 'a renewal is paid, the customer buys again, or you set a later expiry date',
}

const meanings: Readonly<Record<LicenceStatus, string>> = {
  active: 'valid, with the values of its snapshot',
  downgraded: 'valid, with the default of every entitlement',
  suspended: 'not valid until it is reactivated; `status_reason` says why',
  expired: 'not valid: the expiry date has passed, or the subscription was cancelled',
  revoked: 'permanently not valid; online products stop within the check interval',
  retired: 'permanently not valid; taken out of use',
}

/** The guide to the lifecycle, generated from the rules of statuses. */
export function lifecycleGuide(): string {
  return `# The lifecycle of a licence

Every status of a licence, every change of status, and the event that is sent.

## Statuses

| status | meaning | entitlements in the product |
| --- | --- | --- |
${closedSets.licenceStatus.map((status) => `| \`${status}\` | ${meanings[status]} | ${statuses[status].grants} |`).join('\n')}

A new licence is \`active\` (${Object.keys(initialStatus).join(', ')}).

## Diagram

Every change from and to \`active\`. The [table](#transitions) has every change.

\`\`\`mermaid
stateDiagram-v2
    [*] --> active
${edges().join('\n')}
\`\`\`

## Transitions

The status follows from what you say, from what the customer's payments call for, and from the expiry date. If several rows apply to a licence,
the first one gives its status. When a row no longer applies, the next one does: a licence that you suspended and that then expired is suspended
again after a renewal. If no row applies, the licence is \`active\`.

| when | status | event | until |
| --- | --- | --- | --- |
${rows().join('\n')}

- A licence that becomes \`active\` sends \`licence.reactivated\`, or \`licence.plan_changed\` if the customer has bought again or another purchase
  has taken over with another plan. A renewal, and a change of the expiry date, send nothing else if they bring back an earlier status. If only the
  reason of a suspension changes, no event is sent.
- You can suspend an active licence, reactivate a suspended one, revoke any licence that is not retired, and retire any licence. Another verb is
  refused with 409 \`conflict\`. The error contains the \`current\` status and the \`allowed\` verbs.
- Revoking a revoked licence and retiring a retired licence change nothing. A revocation cannot be undone.
- No licence is active on a retired plan. If one would become active, it is suspended with the reason \`plan_archived\`; if you asked for it, the call
  is refused with 409 \`plan_archived\`. An archive suspends only active licences.
- A partial refund also ends a suspension: the licence is downgraded.
- If an expired licence gets another purchase, it is active, even if it was suspended before. A renewal, or a later expiry date, returns it to the
  status that it had before.
- A refund in part, a failed payment or an inquiry leaves an expired licence expired; of these, only the partial refund counts if you later set a new
  expiry date. A full refund or a chargeback revokes it.
- A licence whose expiry date has passed is never valid. Its status becomes \`expired\` within 30 seconds; until then only your calls, a full refund
  and a chargeback change it.
- If the customer has several purchases, the latest valid one decides: [payments](payments.md).

## When the product notices a change

- A revocation: within the check interval (15 minutes by default), through the revocation list.
- Every other change: at the next token refresh. Access ends with the current token, after 24 hours at most.
`
}

const described = statusRules.flatMap(({ hold, purchase, isPast, status, reason }) => {
  const words =
    hold && hold !== 'none'
      ? ofHolds[hold]
      : purchase && purchase !== 'paid'
        ? ofPurchases[purchase]
        : isPast && ofEnd
  return words ? [{ ...words, status, reason }] : []
})

/** The changes from and to `active`. With all changes the diagram is unreadable. */
function edges(): string[] {
  return Object.entries(Object.groupBy(described, ({ status }) => status)).flatMap(([status, rules]) => {
    const labels = (which: keyof Words) =>
      [...new Set(rules.map((words) => words[which]))].filter((label) => label !== 'never').join('<br/>')
    const [leaves, returns] = [labels('from'), labels('until')]
    return [
      `    active --> ${status}: ${leaves}`,
      ...(returns === '' ? [] : [`    ${status} --> active: ${returns}`]),
    ]
  })
}

function rows(): string[] {
  return described.map(({ from, status, reason, until }) => {
    const shown = `\`${status}\`${reason === undefined ? '' : `, reason \`${reason}\``}`
    return `| ${from} | ${shown} | \`${webhookTypeOf(announcements[status].emits)}\` | ${until} |`
  })
}
