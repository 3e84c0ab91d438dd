import { amountText } from '@licensing/money/amounts'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { StripeError } from '../api/errors.ts'
import { parseForm } from '../api/forms.ts'
import { subscriptionsOf } from '../flows/portal.ts'
import { runFlow } from '../flows/table.ts'
import type { BillingPortalSession, Subscription } from '../objects/wire.ts'
import { ownerOf, type World } from '../world.ts'
import { chip, html, sendPage, type Html } from './html.ts'

/** The buttons of the page: a flow, and its parameters besides the subscription. */
const actions: Record<string, { label: string; flow: string; when?: string }> = {
  card: { label: 'Change the card', flow: 'change-card' },
  period_end: { label: 'Cancel at the end of the period', flow: 'cancel', when: 'period_end' },
  undo: { label: 'Do not cancel', flow: 'cancel', when: 'undo' },
  now: { label: 'Cancel at once', flow: 'cancel', when: 'now' },
}

/** Serves the page at a billing portal session's `url`, in place of Stripe's. */
export function servePortal(server: FastifyInstance, world: World): void {
  server.get<{ Params: { id: string } }>('/portal/:id', ({ params }, reply) => {
    const session = world.portalSessions.get(params.id)
    return session ? sendPage(reply, 'Billing', portalPage(world, session)) : notFound(reply)
  })

  server.post<{ Params: { id: string } }>('/portal/:id', ({ params: { id }, body }, reply) => {
    const session = world.portalSessions.get(id)
    const { action = '', subscription } = parseForm(String(body)) as Record<string, string>
    const chosen = Object.hasOwn(actions, action) ? actions[action] : undefined
    const own = session && ownSubscriptions(world, session).find((each) => each.id === subscription)
    if (!chosen || !own) return notFound(reply)
    try {
      runFlow(world, chosen.flow, { subscription: own.id, ...(chosen.when && { when: chosen.when }) })
    } catch (error) {
      // The page was open in two tabs: it shows what is true.
      if (!(error instanceof StripeError)) throw error
    }
    return reply.redirect(`/portal/${id}`, 303)
  })
}

function notFound(reply: FastifyReply): FastifyReply {
  return reply.code(404).type('text/plain').send('No such billing portal session in this simulator.')
}

function ownSubscriptions(world: World, session: BillingPortalSession): Subscription[] {
  return subscriptionsOf(world, ownerOf(world, session), session.customer)
}

function portalPage(world: World, session: BillingPortalSession): Html {
  return html`<section class="card pay">
    <p class="small">Billing of ${ownerOf(world, session) ?? 'the platform'}</p>
    ${ownSubscriptions(world, session).map((each) => subscriptionForm(session, each))}
    ${session.return_url && html`<p><a href="${session.return_url}">Go back</a></p>`}
    <p class="small"><code>${session.id}</code></p>
  </section>`
}

function subscriptionForm(session: BillingPortalSession, subscription: Subscription): Html {
  const { price, current_period_end: end } = subscription.items.data[0]!
  const { status, cancel_at_period_end: isEnding } = subscription
  const names = ['card', isEnding ? 'undo' : 'period_end', 'now']
  return html`<div class="total">${amountText(price.unit_amount ?? 0, subscription.currency)}</div>
    <p>
      ${chip(status)} ${isEnding ? 'ends' : 'period to'} ${new Date(end * 1000).toISOString().slice(0, 10)}
    </p>
    ${
      status !== 'canceled' &&
      html`<form method="post" action="/portal/${session.id}">
        <input type="hidden" name="subscription" value="${subscription.id}" />
        ${names.map((name) => html`<button name="action" value="${name}">${actions[name]!.label}</button>`)}
      </form>`
    }`
}
