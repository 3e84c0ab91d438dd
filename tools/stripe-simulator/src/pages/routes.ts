import type { FastifyInstance, FastifyReply } from 'fastify'
import { runAction } from '../control/actions.ts'
import type { Control } from '../control/control.ts'
import { findAnywhere } from '../flows/find.ts'
import { failSession, paySession } from '../flows/pay-session.ts'
import { Params, parseForm } from '../http/params.ts'
import { impossible, StripeError } from '../http/stripe-error.ts'
import { checkoutPage, successUrl } from './checkout-page.ts'
import { sendPage } from './layout.ts'
import { overviewPage } from './overview-page.ts'

/** Serves the overview page and the hosted checkout page. */
export function servePages(server: FastifyInstance, control: Control): void {
  const { world, deliveries, changed } = control

  server.get('/', (request, reply) => {
    const params = new Params(request.query)
    const flash = { done: params.string('done'), failed: params.string('failed') }
    return sendPage(reply, overviewPage(world, deliveries, flash))
  })

  server.post<{ Params: { action: string } }>('/actions/:action', async (request, reply) => {
    const { action } = request.params
    try {
      const values = withoutBlanks(request.body)
      const ofDelivery = Object.hasOwn(deliveryActions, action) ? deliveryActions[action] : undefined
      if (ofDelivery === undefined) runAction(world, action, values)
      else await ofDelivery(control, new Params(values))
    } catch (error) {
      if (!(error instanceof StripeError)) throw error
      return reply.redirect(overviewWith({ failed: error.message }), 303)
    }
    changed()
    return reply.redirect(overviewWith({ done: action }), 303)
  })

  server.get<{ Params: { session: string } }>('/pay/:session', (request, reply) => {
    const found = findSession(control, request.params.session)
    if (found === undefined) return notFound(reply)
    const declined = new Params(request.query).has('declined')
    return sendPage(reply, checkoutPage(world, found.account, found.object, declined))
  })

  server.post<{ Params: { session: string } }>('/pay/:session', (request, reply) => {
    const found = findSession(control, request.params.session)
    if (found === undefined) return notFound(reply)
    const { id, status, customer_email } = found.object
    const params = new Params(withoutBlanks(request.body))
    const how = params.oneOf('how', ['card', 'delayed', 'declined']) ?? 'card'
    const email = params.string('email') ?? customer_email ?? 'buyer@example.com'
    // If the form is sent twice, the session is paid only once.
    if (status !== 'open') return reply.redirect(`/pay/${id}`, 303)
    if (how === 'declined') {
      failSession(world, id, { method: 'card', email })
      changed()
      return reply.redirect(`/pay/${id}?declined=1`, 303)
    }
    const session = paySession(world, id, { method: how, email, discount: 0 })
    changed()
    return reply.redirect(successUrl(session), 303)
  })
}

function overviewWith(flash: Record<string, string>): string {
  return `/?${new URLSearchParams(flash).toString()}`
}

function findSession({ world }: Control, id: string) {
  return world.sessions.findAnywhere(id)
}

function withoutBlanks(body: unknown): Record<string, unknown> {
  const form = typeof body === 'string' ? parseForm(body) : {}
  return Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''))
}

function notFound(reply: FastifyReply): FastifyReply {
  return reply.code(404).type('text/plain').send('No such checkout session in this simulator.')
}

/** The actions of the buttons beside the events. */
const deliveryActions: Record<string, (control: Control, params: Params) => Promise<void> | void> = {
  hold({ deliveries }) {
    deliveries.rules.add({
      action: 'hold',
      types: [],
      account: undefined,
      remaining: null,
      delay_ms: 0,
      times: 1,
      signature: 'valid',
    })
  },

  release({ deliveries }, params) {
    deliveries.release({ reversed: params.string('order') === 'reversed' })
  },

  async redeliver({ world, deliveries }, params) {
    const { object } = findAnywhere(world.events, 'event', params.required('event'))
    if (deliveries.endpoint === null) throw impossible('No webhook endpoint is set.')
    deliveries.record(object.id, await deliveries.send(object, 'valid'))
  },
}
