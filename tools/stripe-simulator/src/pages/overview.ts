import { amountText } from '@licensing/money/amounts'
import type { FastifyInstance } from 'fastify'
import { StripeError } from '../api/errors.ts'
import { parseForm } from '../api/forms.ts'
import type { Deliveries } from '../events.ts'
import { awaitsPayment } from '../flows/checkout.ts'
import { isInquiry, isOpen } from '../flows/dispute.ts'
import { runFlow } from '../flows/table.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import type { Charge, CheckoutSession, Dispute, Refund, Subscription } from '../objects/wire.ts'
import { newestFirst, type World } from '../world.ts'
import { chip, html, sendPage, type Html } from './html.ts'

/** Serves a page with all objects, each with buttons for the flows that are possible next. */
export function serveOverview(server: FastifyInstance, world: World, deliveries: Deliveries): void {
  server.get('/', ({ query }, reply) => {
    const { done, failed } = query as { done?: string; failed?: string }
    return sendPage(
      reply,
      'Overview',
      html`${done && html`<p class="good" role="status">Done: ${done}.</p>`}
        ${failed && html`<p class="bad" role="alert">${failed}</p>`}
        <h1>Simulated Stripe</h1>
        <p class="small">
          What customers, banks and vendors would do, at a click. Each click sends the webhooks that Stripe
          would send. <a href="/">Refresh</a>
        </p>
        ${section('Checkout sessions', world, world.sessions, sessionRow)}
        ${section('Payments', world, world.charges, chargeRow)}
        ${section('Refunds', world, world.refunds, refundRow)}
        ${section('Disputes', world, world.disputes, disputeRow)}
        ${section('Subscriptions', world, world.subscriptions, subscriptionRow)}
        ${section('Events', world, world.events, (event) => eventRow(deliveries, event))}`,
    )
  })

  server.post<{ Params: { flow: string } }>('/actions/:flow', ({ params: { flow }, body }, reply) => {
    const outcome = { done: flow, failed: '' }
    try {
      const filledIn = Object.entries(parseForm(String(body))).filter(([, value]) => value !== '')
      runFlow(world, flow, Object.fromEntries(filledIn))
    } catch (error) {
      if (!(error instanceof StripeError)) throw error
      Object.assign(outcome, { done: '', failed: error.message })
    }
    return reply.redirect(`/?${new URLSearchParams(outcome).toString()}`, 303)
  })
}

type Row = { title: Part; about?: Part; statuses: string[]; buttons?: Part }
type Part = Html | string | null | false | Part[]

const maxRows = 50

function section<T extends { id: string; created: number }>(
  title: string,
  world: World,
  objects: Map<string, T>,
  row: (each: T) => Row,
): Html {
  const rows = newestFirst([...objects.values()]).slice(0, maxRows)
  const shown = rows.map((each) => {
    const { title: name, about, statuses, buttons } = row(each)
    const time = new Date(each.created * 1000).toISOString().slice(0, 16).replace('T', ' ')
    return html`<div class="row">
      <div>
        <span class="money">${name}</span>
        <br /><code>${each.id}</code>
      </div>
      <div>
        ${statuses.map(chip)}
        <div class="small">
          ${about && html`${about}<br />`}${world.owners.get(each.id) ?? 'platform'}<br />${time} UTC
        </div>
      </div>
      <div class="buttons">${buttons}</div>
    </div>`
  })
  return html`<h2>${title}: ${objects.size}</h2>
    <div class="card">${shown.length > 0 ? shown : 'None yet.'}</div>`
}

/** A button for a flow. It sends `fields`, and the user fills in `input`. */
function act(flow: string, label: string, fields: Record<string, string>, input?: Html): Html {
  const hidden = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )
  return html`<form method="post" action="/actions/${flow}">${hidden}${input}<button>${label}</button></form>`
}

function sessionRow(session: CheckoutSession): Row {
  const of = { session: session.id }
  const open = [
    html`<a href="/pay/${session.id}">Open</a>`,
    act('pay', 'Pay', of),
    act('pay', 'Pay later', { ...of, method: 'delayed' }),
    act('fail', 'Decline', of),
    act('expire', 'Expire', of),
  ]
  const waiting = [act('pay', 'Money arrives', of), act('fail', 'Payment fails', of)]
  return {
    title: amountText(session.amount_total ?? 0, session.currency ?? ''),
    about: `${session.mode} ${session.client_reference_id ?? ''}`,
    statuses: [session.status ?? '', session.payment_status],
    buttons: session.status === 'open' ? open : awaitsPayment(session) && waiting,
  }
}

const amountInput = html`<input
  name="amount"
  inputmode="numeric"
  pattern="[0-9]+"
  required
  placeholder="minor units"
  aria-label="amount in minor units"
/>`

function chargeRow(charge: Charge): Row {
  const of = { charge: charge.id }
  const refunds = [
    act('refund', 'Refund part', of, amountInput),
    act('refund', 'Refund all', of),
    act('refund', 'Refund, pending', { ...of, status: 'pending' }),
  ]
  const disputes = [
    act('dispute', 'Chargeback', { ...of, kind: 'chargeback' }),
    act('dispute', 'Inquiry', { ...of, kind: 'inquiry' }),
  ]
  const fee = charge.application_fee && charge.application_fee_amount
  return {
    title: amountText(charge.amount, charge.currency),
    about: fee ? `fee ${amountText(fee, charge.currency)}` : null,
    statuses: [charge.refunded ? 'refunded' : charge.status, ...(charge.disputed ? ['disputed'] : [])],
    buttons: charge.paid && [!charge.refunded && refunds, disputes],
  }
}

function refundRow(refund: Refund): Row {
  const becomes = (status: string, label: string) =>
    act('refund-status', label, { refund: refund.id, status })
  const isPending = refund.status === 'pending'
  return {
    title: amountText(refund.amount, refund.currency),
    about: refund.charge,
    statuses: [refund.status ?? ''],
    buttons: [
      isPending && becomes('succeeded', 'It succeeds'),
      (isPending || refund.status === 'succeeded') && becomes('failed', 'It fails'),
    ],
  }
}

function disputeRow(dispute: Dispute): Row {
  const of = { dispute: dispute.id }
  const close = (outcome: string, label: string) => act('close-dispute', label, { ...of, outcome })
  const next = isInquiry(dispute)
    ? [act('escalate-dispute', 'Becomes a chargeback', of), close('warning_closed', 'Close inquiry')]
    : [close('won', 'Vendor wins'), close('lost', 'Vendor loses')]
  return {
    title: amountText(dispute.amount, dispute.currency),
    about: dispute.charge,
    statuses: [dispute.status],
    buttons: isOpen(dispute) && next,
  }
}

function subscriptionRow(subscription: Subscription): Row {
  const of = { subscription: subscription.id }
  const { price, current_period_end: end } = subscription.items.data[0]!
  const isEnding = subscription.cancel_at_period_end
  const cancel = isEnding
    ? act('cancel', 'Keep after all', { ...of, when: 'undo' })
    : act('cancel', 'Cancel at period end', { ...of, when: 'period_end' })
  const buttons = [
    act('renew', isEnding ? 'Period ends' : 'Renew', of),
    act('fail-invoice', 'Payment fails', of),
    cancel,
    act('cancel', 'Cancel now', of),
  ]
  const every = `every ${price.recurring?.interval_count ?? 1} ${price.recurring?.interval ?? ''}`
  return {
    title: `${amountText(price.unit_amount ?? 0, subscription.currency)} ${every}`,
    about: `${isEnding ? 'ends' : 'period to'} ${new Date(end * 1000).toISOString().slice(0, 10)}`,
    statuses: [subscription.status],
    buttons: subscription.status !== 'canceled' && buttons,
  }
}

function eventRow(deliveries: Deliveries, event: SimulatedEvent): Row {
  const { state = 'skipped', attempts = [] } = deliveries.of.get(event.id) ?? {}
  const last = attempts.at(-1)
  return {
    title: event.type,
    about: last ? `sent ${attempts.length} ×: ${last.status ?? last.error}` : null,
    statuses: [state],
  }
}
