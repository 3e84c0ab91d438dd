import { amountText } from '@licensing/money/amounts'
import type { Deliveries } from '../delivery/deliveries.ts'
import { isInquiry, isOpen } from '../flows/dispute-charge.ts'
import { awaitsPayment } from '../flows/pay-session.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import type { Charge, CheckoutSession, Dispute, Refund, Subscription } from '../objects/wire.ts'
import type { Stored } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { act, chip, html, layout, moment, type Html } from './layout.ts'

const maxRows = 50

type Flash = { done?: string | undefined; failed?: string | undefined }

/** All objects, newest first, each with buttons for the possible actions. */
export function overviewPage(world: World, deliveries: Deliveries, flash: Flash): string {
  const charges = world.charges.everything().filter(({ object }) => object.status !== 'pending')
  const body = html`${flash.done && html`<p class="flash good" role="status">Done: ${flash.done}.</p>`}
    ${flash.failed && html`<p class="flash bad" role="alert">${flash.failed}</p>`}
    <h1>Simulated Stripe</h1>
    <p class="lead">
      What customers, banks and vendors would do, at a click. Each click sends the webhooks that Stripe would
      send${deliveries.endpoint ? html` to <code>${deliveries.endpoint.url}</code>` : ', had an endpoint been set'}.
      <a href="/">Refresh</a>
    </p>
    ${section('Checkout sessions', world.sessions.everything(), sessionRow)}
    ${section('Payments', charges, (stored) => paymentRow(world, stored))}
    ${section('Subscriptions', world.subscriptions.everything(), subscriptionRow)}
    ${section('Events', world.events.everything(), ({ object }) => eventRow(deliveries, object), eventTools(deliveries))}`
  return layout('Overview', body)
}

function section<T>(title: string, stored: T[], row: (each: T) => Html, tools?: Html): Html {
  const shown = stored.slice(0, maxRows).map(row)
  const count = stored.length > maxRows ? `${maxRows} of ${stored.length}` : stored.length
  return html`<h2>${title} <span class="count">${count}</span></h2>
    ${tools}
    ${shown.length > 0 ? html`<div class="card">${shown}</div>` : html`<p class="empty card">None yet.</p>`}`
}

function sessionRow({ account, object: session }: Stored<CheckoutSession>): Html {
  const named = { session: session.id }
  const amount = amountText(session.amount_total ?? 0, session.currency ?? '')
  const open = html`<a class="button" href="/pay/${session.id}">Open</a> ${act('pay', 'Pay', named)}
    ${act('pay', 'Pay later', { ...named, method: 'delayed' })} ${act('fail', 'Decline', named)}
    ${act('expire', 'Expire', named)}`
  const waiting = html`${act('pay', 'Money arrives', named)} ${act('fail', 'Payment fails', named)}`
  return html`<div class="row">
    <div>
      <span class="money">${amount}</span> ${session.client_reference_id}<br /><code>${session.id}</code>
    </div>
    <div>
      ${chip(session.status ?? '')} ${session.status === 'complete' && chip(session.payment_status)}
      <div class="small">${session.mode} · ${account ?? 'platform'}<br />${moment(session.created)}</div>
    </div>
    <div class="acts">${session.status === 'open' ? open : awaitsPayment(session) && waiting}</div>
  </div>`
}

function paymentRow(world: World, { account, object: charge }: Stored<Charge>): Html {
  const { currency } = charge
  const disputes = world.disputes.list(account, (dispute) => dispute.charge === charge.id)
  const refunds = world.refunds.list(account, (refund) => refund.charge === charge.id)
  const fee = charge.application_fee && amountText(charge.application_fee_amount ?? 0, currency)
  return html`<div class="row">
    <div>
      <span class="money">${amountText(charge.amount, currency)}</span><br /><code>${charge.id}</code>
    </div>
    <div>
      ${chip(charge.refunded ? 'refunded' : charge.status)} ${charge.disputed && chip('disputed')}
      <div class="small">
        ${fee && `fee ${fee} · `}${account ?? 'platform'}<br />${moment(charge.created)}
      </div>
    </div>
    <div class="acts">${charge.paid && paymentActs(charge)}</div>
    ${refunds.map(refundRow)} ${disputes.map(disputeRow)}
  </div>`
}

function paymentActs(charge: Charge): Html {
  const named = { charge: charge.id }
  const part = html`<input
    name="amount"
    inputmode="numeric"
    pattern="[0-9]+"
    required
    placeholder="minor units"
    aria-label="amount in minor units"
  />`
  const refunds = html`${act('refund', 'Refund part', named, part)} ${act('refund', 'Refund all', named)}
  ${act('refund', 'Refund, pending', { ...named, status: 'pending' })}`
  return html`${!charge.refunded && refunds} ${act('dispute', 'Chargeback', { ...named, kind: 'chargeback' })}
  ${act('dispute', 'Inquiry', { ...named, kind: 'inquiry' })}`
}

function subscriptionRow({ account, object: subscription }: Stored<Subscription>): Html {
  const named = { subscription: subscription.id }
  const [item] = subscription.items.data
  const booked = subscription.cancel_at_period_end
  const end = item && html`${booked ? 'ends' : 'period to'} ${moment(item.current_period_end)}`
  return html`<div class="row">
    <div>
      <span class="money">${item && amountText(item.price.unit_amount ?? 0, subscription.currency)}</span>
      per ${item?.price.recurring?.interval_count} ${item?.price.recurring?.interval}<br /><code
        >${subscription.id}</code
      >
    </div>
    <div>
      ${chip(subscription.status)} ${booked && subscription.status !== 'canceled' && chip('ending')}
      <div class="small">${account ?? 'platform'}<br />${end}</div>
    </div>
    <div class="acts">
      ${
        subscription.status !== 'canceled' &&
        html`${act('renew', booked ? 'Period ends' : 'Renew', named)}
        ${act('fail-invoice', 'Payment fails', named)}
        ${booked ? act('cancel', 'Keep after all', { ...named, when: 'undo' }) : act('cancel', 'Cancel at period end', { ...named, when: 'period_end' })}
        ${act('cancel', 'Cancel now', named)}`
      }
    </div>
  </div>`
}

function eventTools(deliveries: Deliveries): Html {
  const held = deliveries.held().length
  const holding = deliveries.rules.isHolding()
  return html`<div class="tools">
    ${holding ? chip('holding') : act('hold', 'Hold the next events', {})}
    ${(holding || held > 0) && act('release', `Release ${held} in order`, {})}
    ${held > 1 && act('release', `Release ${held} reversed`, { order: 'reversed' })}
  </div>`
}

function eventRow(deliveries: Deliveries, event: SimulatedEvent): Html {
  const delivery = deliveries.find(event.id)
  const tries = delivery?.attempts.length ?? 0
  const last = delivery?.attempts.at(-1)
  return html`<div class="row">
    <div>${event.type}<br /><code>${event.id}</code></div>
    <div class="small">${moment(event.created)}<br />${event.account ?? 'platform'}</div>
    <div class="acts">
      ${last && html`<span class="small">sent ${tries} × · ${last.status ?? last.error}</span>`}
      ${chip(delivery?.state ?? 'skipped')} ${act('redeliver', 'Send again', { event: event.id })}
    </div>
  </div>`
}

function refundRow(refund: Refund): Html {
  const named = { refund: refund.id }
  const fails = act('refund-status', 'It fails', { ...named, status: 'failed' })
  return html`<div class="sub">
    Refund
    <span class="money">${amountText(refund.amount, refund.currency)}</span> ${chip(refund.status ?? '')}
    <code>${refund.id}</code>
    ${refund.status === 'pending' && act('refund-status', 'It succeeds', { ...named, status: 'succeeded' })}
    ${(refund.status === 'pending' || refund.status === 'succeeded') && fails}
  </div>`
}

function disputeRow(dispute: Dispute): Html {
  const named = { dispute: dispute.id }
  const close = (outcome: string, label: string): Html => act('close-dispute', label, { ...named, outcome })
  const next = isInquiry(dispute)
    ? html`${act('escalate-dispute', 'Becomes a chargeback', named)}
      ${close('warning_closed', 'Close inquiry')}`
    : html`${close('won', 'Vendor wins')} ${close('lost', 'Vendor loses')}`
  return html`<div class="sub">
    ${isInquiry(dispute) ? 'Inquiry' : 'Chargeback'}
    <span class="money">${amountText(dispute.amount, dispute.currency)}</span> ${chip(dispute.status)}
    <code>${dispute.id}</code> ${isOpen(dispute) && next}
  </div>`
}
