import type { WebhookEventType } from '@licensing/sdk/webhooks'
import { Refusal } from '../command/failures.ts'
import type { Workbench } from './workbench.ts'

/** By what the event is found among the account's. */
export type Subject =
  { readonly licence_id: string } | { readonly session_id: string } | { readonly event_id: string }

type Recipe = (bench: Workbench) => Promise<Subject>

const moved =
  (...verbs: Parameters<Workbench['move']>[0][]): Recipe =>
  async ({ issue, move }) => {
    const id = await issue()
    for (const verb of verbs) await move(verb, id)
    return { licence_id: id }
  }

const bought =
  (refunded?: 'fully' | 'in part'): Recipe =>
  async ({ buy }) => {
    const { licenceId, refund } = await buy()
    if (refunded !== undefined) await refund(refunded === 'fully' ? undefined : 100)
    return { licence_id: licenceId }
  }

/** How each type of event is made to happen. */
export const recipes: Readonly<Record<WebhookEventType, Recipe>> = {
  'licence.created': async ({ sell }) => ({ licence_id: (await sell('licensing-trigger')).licenceId }),
  'licence.plan_changed': async ({ sell }) => {
    const { customer, licenceId } = await sell('licensing-trigger')
    await sell('licensing-trigger-other', customer)
    return { licence_id: licenceId }
  },
  'licence.suspended': moved('suspend'),
  'licence.reactivated': moved('suspend', 'reactivate'),
  'licence.revoked': moved('revoke'),
  'licence.retired': moved('retire'),
  'licence.expired': async ({ issue }) => ({ licence_id: await issue(new Date(Date.now() + 3_000)) }),
  'licence.downgraded': bought('in part'),
  'payment.succeeded': bought(),
  'payment.provision_failed': async ({ openCheckout, archive }) => {
    const { id, planId, pay } = await openCheckout('licensing-trigger-retired')
    await archive(planId)
    await pay()
    return { session_id: id }
  },
  'refund.processed': bought('fully'),
  'spend_cap.reached': () => {
    throw new Refusal(
      'cannot_trigger',
      'spend_cap.reached cannot be triggered: it would pause the checkouts of the whole account',
    )
  },
  'webhook.test': async ({ testEndpoint }) => ({ event_id: await testEndpoint() }),
}
