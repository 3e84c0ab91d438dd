import { amountText } from '@licensing/money/amounts'
import { findOwned } from '../flows/find.ts'
import { nameOf } from '../objects/invoice-line.ts'
import type { CheckoutSession } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { chip, html, layout, type Html } from './layout.ts'

/** The page at a checkout session's `url`, in place of Stripe's checkout page. */
export function checkoutPage(
  world: World,
  account: Owner,
  session: CheckoutSession,
  declined: boolean,
): string {
  const currency = session.currency ?? ''
  const total = amountText(session.amount_total ?? 0, currency)
  const plan = findOwned(world.checkoutPlans, 'checkout session', account, session.id)
  const lines = plan.lines.map(({ price, quantity }) => {
    const every = price.recurring ? ` / ${price.recurring.interval_count} ${price.recurring.interval}` : ''
    const amount = amountText((price.unit_amount ?? 0) * quantity, currency)
    return html`<div class="line">
      <span>${quantity} × ${nameOf(price)}</span><span class="money">${amount}${every}</span>
    </div>`
  })
  const body = html`<section class="card pay">
    <p class="small">Pay ${account ?? 'the platform'}</p>
    <div class="total">${total}</div>
    ${lines} ${session.status === 'open' ? payForm(session, total, declined) : finished(session)}
    <p class="small"><code>${session.id}</code></p>
  </section>`
  return layout('Checkout', body)
}

function payForm(session: CheckoutSession, total: string, declined: boolean): Html {
  const subscribing = session.mode === 'subscription'
  return html`${declined && html`<p class="flash bad" role="alert">The card was declined. Try again.</p>`}
    <form method="post" action="/pay/${session.id}">
      <label>
        E-mail (optional)
        <input type="email" name="email" value="${session.customer_email}" placeholder="buyer@example.com" />
      </label>
      <button class="main" name="how" value="card">${subscribing ? 'Subscribe for' : 'Pay'} ${total}</button>
      <button name="how" value="delayed">Pay by bank debit (settles later)</button>
      <button name="how" value="declined">Let the card be declined</button>
    </form>
    ${session.cancel_url && html`<a class="back" href="${session.cancel_url}">Cancel and go back</a>`}`
}

function finished(session: CheckoutSession): Html {
  const to = successUrl(session)
  return html`<p>${chip(session.status ?? '')} ${chip(session.payment_status)}</p>
    ${session.status === 'complete' && to && html`<a class="back" href="${to}">Back to the shop</a>`}`
}

export function successUrl(session: CheckoutSession): string {
  return (session.success_url ?? '/').replaceAll('{CHECKOUT_SESSION_ID}', session.id)
}
