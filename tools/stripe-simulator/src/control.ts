import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { impossible, noSuch, StripeError } from './api/errors.ts'
import { flag, integer, listOf, read, text } from './api/forms.ts'
import { faultKinds, type Fault } from './api/serve.ts'
import { newEvent, ruleActions, type Deliveries } from './events.ts'
import { runFlow } from './flows/table.ts'
import { at, realTime, type World } from './world.ts'

const faultShape = {
  answer: z.enum(faultKinds),
  next: integer(1).default(1),
  until_cleared: flag.default(false),
  method: text.optional(),
  path: text.optional(),
  account: text.optional(),
  applied: flag.default(false),
  delay_ms: integer().default(1000),
}

const ruleShape = {
  action: z.enum(ruleActions),
  types: listOf(text).default([]),
  account: text.optional(),
  next: integer(1).optional(),
  delay_ms: integer().default(1000),
  times: integer(1).default(2),
}

/** Serves the control API under `/_sim`, which Stripe does not have. It takes and returns JSON. */
export function serveControl(
  server: FastifyInstance,
  world: World,
  deliveries: Deliveries,
  faults: Fault[],
): void {
  server.register(
    (scope, _options, done) => {
      scope.setErrorHandler((error, _request, reply) => {
        if (error instanceof StripeError) return reply.code(error.status).send({ error: error.body })
        throw error
      })
      scope.get('/state', () => ({ collections: stateOf(world) }))
      scope.get('/events', () => ({
        data: [...world.events.values()].map((event) => ({
          event,
          delivery: deliveries.of.get(event.id) ?? null,
        })),
      }))
      scope.post('/faults', (request) => {
        const { next, until_cleared: isLasting, ...fault } = read(faultShape, request.body)
        faults.push({ ...fault, remaining: isLasting ? null : next })
        return fault
      })
      scope.delete('/faults', () => faults.splice(0))
      scope.post('/delivery-rules', (request) => {
        const { next = null, ...rule } = read(ruleShape, request.body)
        deliveries.rules.push({ ...rule, remaining: next })
        return rule
      })
      scope.delete('/delivery-rules', () => deliveries.rules.splice(0))
      scope.post('/release', (request) => {
        const { order } = read({ order: z.enum(['emitted', 'reversed']).default('emitted') }, request.body)
        deliveries.release({ reversed: order === 'reversed' })
        return { order }
      })
      // Sends a made-up event, and answers when it was answered.
      scope.post('/deliver', (request) => {
        const { event } = read({ event: z.looseObject({}) }, request.body)
        if (deliveries.endpoint === null) throw impossible('no webhook endpoint is set')
        return deliveries.send(at(world, realTime(), () => newEvent(world, event)))
      })
      scope.post<{ Params: { flow: string } }>('/:flow', (request) =>
        runFlow(world, request.params.flow, request.body),
      )
      scope.setNotFoundHandler((request) => {
        throw noSuch('control', request.url)
      })
      done()
    },
    { prefix: '/_sim' },
  )
}

/** Stripe's objects, each with its account. */
function stateOf(world: World) {
  const { sessions, paymentIntents, charges, refunds, disputes } = world
  const { applicationFees, subscriptions, invoices, invoicePayments, portalSessions } = world
  const kinds = {
    sessions,
    paymentIntents,
    charges,
    refunds,
    disputes,
    applicationFees,
    subscriptions,
    invoices,
    invoicePayments,
    portalSessions,
  }
  return Object.fromEntries(
    Object.entries(kinds).map(([name, objects]) => [
      name,
      [...objects.values()].map((object) => ({ account: world.owners.get(object.id) ?? null, object })),
    ]),
  )
}
