import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { webhookTypeOf } from '@licensing/proto/webhook-events'
import { beginnings, grants, lifecycle } from './licence.ts'
import type { Cause, Transition } from './licence.ts'

/** Where the guide is; `write-lifecycle-guide.ts` writes it. */
export const guideFile = new URL('../../../../docs/guides/lifecycle.md', import.meta.url)

const causes: Readonly<Record<Cause, string>> = {
  suspend: 'you suspend it',
  reactivate: 'you reactivate it',
  revoke: 'you revoke it',
  retire: 'you retire it',
  extended: 'you move the end of an expired licence ahead',
  planArchived: 'its plan is archived',
  expiryPassed: 'its end passes',
  paymentsFailed: 'renewals fail repeatedly',
  inquiryOpened: 'the processor inquires about its payment',
  inquiryClosed: 'the inquiry is closed in your favour',
  refunded: 'a full refund, or a chargeback',
  partlyRefunded: 'a partial refund',
  subscriptionCancelled: 'its subscription is cancelled',
  purchaseLanded: 'its customer buys again',
  purchaseTakesOver: 'an earlier purchase takes over',
  renewed: 'a renewal is paid',
  planFollowsPrice: 'its subscription moves to another price',
  paymentsMadeGood: 'what had not been paid is paid',
  cameToRetiredPlan: 'it comes to a retired plan',
  tookOverOnRetiredPlan: 'a purchase of a retired plan takes over',
}

const meanings: Readonly<Record<LicenceStatus, string>> = {
  active: 'works, with the values of its snapshot',
  downgraded: 'works, with the default of every entitlement',
  suspended: 'does not work for now; `status_reason` says why',
  expired: 'does not work: its end has passed, or its subscription was cancelled',
  revoked: 'does not work, permanently; products notice within the check interval',
  retired: 'does not work, permanently; taken out of use',
}

/** The guide to the lifecycle, from the table that moves licences. */
export function lifecycleGuide(): string {
  return `# The lifecycle of a licence

Every status, what moves a licence from one to another, and the event that you receive. Made from the table that the
service itself goes by.

## Statuses

| status | what it means | a product gets |
| --- | --- | --- |
${closedSets.licenceStatus.map((status) => `| \`${status}\` | ${meanings[status]} | ${grants[status]} |`).join('\n')}

A licence begins \`active\`: ${Object.keys(beginnings).join(', ')}.

## Diagram

\`\`\`mermaid
stateDiagram-v2
    [*] --> active
${edges().join('\n')}
\`\`\`

## Transitions

| when | from | to | event |
| --- | --- | --- | --- |
${rows().join('\n')}

"As before" is what the licence was before it expired. A retired plan keeps a licence from becoming active, and where
several purchases stand, what the others call for counts too: the [payments](payments.md) guide has the rules. A verb that
the status does not allow is refused with 409 \`conflict\`, which names the \`current\` status and the verbs that are
\`allowed\`; revoking a revoked and retiring a retired licence change nothing. There is no un-revoke.

## When a product notices

A revocation: within the check interval that its token prescribes (15 minutes), through the revocation list. Anything
else: when it next renews its token, so that access ends with the token, after a day at the latest.
`
}

function edges(): string[] {
  const labels = new Map<string, Set<string>>()
  for (const [cause, transitions] of Object.entries(lifecycle)) {
    for (const { from, to, where } of transitions as readonly Transition[]) {
      const target = to === 'former' ? (where?.was ?? 'active') : to
      for (const status of from) {
        if (target === 'same' || target === status) continue
        const edge = `${status} --> ${target}`
        labels.set(edge, (labels.get(edge) ?? new Set()).add(causes[cause as Cause]))
      }
    }
  }
  return [...labels].map(([edge, reasons]) => `    ${edge}: ${[...reasons].join(' / ')}`)
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
