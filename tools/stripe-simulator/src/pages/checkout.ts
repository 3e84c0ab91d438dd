import { amountText } from '@licensing/money/amounts'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { parseForm } from '../api/forms.ts'
import { buyer } from '../flows/subscription.ts'
import { runFlow } from '../flows/table.ts'
import type { CheckoutSession } from '../objects/wire.ts'
import { need, type World } from '../world.ts'
import { chip, html, sendPage, type Html } from './html.ts'

/** Serves the page at a checkout session's `url`, in place of Stripe's checkout page. */
export function serveCheckout(server: FastifyInstance, world: World): void {
  server.get<{ Params: { id: string } }>('/pay/:id', ({ params, query }, reply) => {
    const session = world.sessions.get(params.id)
    if (session === undefined) return notFound(reply)
    return sendPage(reply, 'Checkout', checkoutPage(world, session, 'declined' in Object(query)))
  })

  server.post<{ Params: { id: string } }>('/pay/:id', ({ params: { id }, body }, reply) => {
    const session = world.sessions.get(id)
    if (session === undefined) return notFound(reply)
    // If the form is sent twice, the session is paid only once.
    if (session.status !== 'open') return reply.redirect(`/pay/${id}`, 303)
    const { how, email } = parseForm(String(body))
    const payer = { session: id, email: email || buyer }
    if (how === 'declined') {
      runFlow(world, 'fail', payer)
      return reply.redirect(`/pay/${id}?declined=1`, 303)
    }
    runFlow(world, 'pay', { ...payer, method: how })
    return reply.redirect(successUrl(session), 303)
  })
}

function notFound(reply: FastifyReply): FastifyReply {
  return reply.code(404).type('text/plain').send('No such checkout session in this simulator.')
}

function checkoutPage(world: World, session: CheckoutSession, isDeclined: boolean): Html {
  const currency = session.currency ?? ''
  const total = amountText(session.amount_total ?? 0, currency)
  const { lines } = need(world.orders, 'checkout session', session.id)
  return html`<section class="card pay">
    <p class="small">Pay ${world.owners.get(session.id) ?? 'the platform'}</p>
    <div class="total">${total}</div>
    ${lines.map(({ price, quantity }) => {
      const every = price.recurring && ` every ${price.recurring.interval_count} ${price.recurring.interval}`
      return html`<p>${quantity} × ${price.id}: ${amountText(price.unit_amount ?? 0, currency)}${every}</p>`
    })}
    ${session.status === 'open' ? payForm(session, total, isDeclined) : finished(session)}
    <p class="small"><code>${session.id}</code></p>
  </section>`
}

function payForm(session: CheckoutSession, total: string, isDeclined: boolean): Html {
  const verb = session.mode === 'subscription' ? 'Subscribe for' : 'Pay'
  return html`${isDeclined && html`<p class="bad" role="alert">The card was declined. Try again.</p>`}
    <form method="post" action="/pay/${session.id}">
      <label>
        E-mail (optional)
        <input type="email" name="email" placeholder="${buyer}" />
      </label>
      <button class="main" name="how" value="card">${verb} ${total}</button>
      <button name="how" value="delayed">Pay by bank debit (settles later)</button>
      <button name="how" value="declined">Let the card be declined</button>
    </form>
    ${session.cancel_url && html`<p><a href="${session.cancel_url}">Cancel and go back</a></p>`}`
}

function finished(session: CheckoutSession): Html {
  const isComplete = session.status === 'complete'
  return html`<p>${chip(session.status ?? '')} ${chip(session.payment_status)}</p>
    ${isComplete && html`<p><a href="${successUrl(session)}">Back to the shop</a></p>`}`
}

function successUrl(session: CheckoutSession): string {
  return (session.success_url ?? '/').replaceAll('{CHECKOUT_SESSION_ID}', session.id)
}
