import type { FastifyInstance } from 'fastify'
import { findAnywhere } from '../flows/find.ts'
import { runDue } from '../flows/run-due.ts'
import { faultKinds } from '../http/faults.ts'
import { Params } from '../http/params.ts'
import { impossible, invalidRequest, noSuch, StripeError } from '../http/stripe-error.ts'
import { dumpWorld, type World } from '../world/world.ts'
import { runAction } from './actions.ts'
import type { Control } from './control.ts'
import { deliveryRoutes } from './delivery-routes.ts'

/** Serves the control API under `/_sim`, which Stripe does not have. It takes and returns JSON. */
export function serveControl(server: FastifyInstance, control: Control): void {
  const { world, faults, requests, changed } = control
  server.register(
    (scope, _options, done) => {
      scope.setErrorHandler((error, _request, reply) => {
        if (error instanceof StripeError) return reply.code(error.status).send({ error: error.body })
        throw error
      })
      deliveryRoutes(scope, control)

      scope.get('/state', () => dumpWorld(world))
      scope.post('/reset', () => {
        control.reset()
        return { reset: true }
      })

      scope.get('/clock', () => clockState(world))
      scope.post('/clock', (request) => {
        const state = setClock(world, new Params(request.body))
        changed()
        return state
      })

      scope.get('/faults', () => ({ data: faults.list() }))
      scope.post('/faults', (request) => {
        addFault(control, new Params(request.body))
        return { data: faults.list() }
      })
      scope.delete('/faults', () => {
        faults.clear()
        return { data: [] }
      })

      scope.get('/requests', () => ({ data: requests.list() }))
      scope.delete('/requests', () => {
        requests.clear()
        return { data: [] }
      })

      scope.post<{ Params: { action: string } }>('/:action', (request) => {
        const result = runAction(world, request.params.action, request.body)
        changed()
        return result
      })
      scope.setNotFoundHandler((request) => {
        throw noSuch('control', request.url)
      })
      done()
    },
    { prefix: '/_sim' },
  )
}

function addFault({ faults }: Control, params: Params): void {
  params.only('answer', 'next', 'until_cleared', 'method', 'path', 'account', 'applied', 'saved', 'delay_ms')
  const answer = params.oneOf('answer', faultKinds)
  if (answer === undefined) throw params.missing('answer')
  const saved = params.boolean('saved') ?? false
  if (saved && ['timeout', 'hang', 'reset'].includes(answer))
    throw invalidRequest('Only an error with a status can be saved.')
  faults.add({
    answer,
    remaining: params.boolean('until_cleared') === true ? null : (params.integer('next', 1) ?? 1),
    method: params.string('method'),
    path: params.string('path'),
    account: params.string('account'),
    applied: params.boolean('applied') ?? false,
    saved,
    delay_ms: params.integer('delay_ms') ?? 1000,
  })
}

/** Moves the simulator's clock, or the clock of one subscription's customer, and runs everything that becomes due. */
function setClock(world: World, params: Params): object {
  params.only('now', 'offset_seconds', 'advance_seconds', 'reset', 'subscription')
  const subscription = params.string('subscription')
  if (subscription === undefined) setEveryone(world, params)
  else moveOn(world, params, findAnywhere(world.subscriptions, 'subscription', subscription).object.customer)
  runDue(world, { unattended: false })
  return clockState(world)
}

function clockState(world: World): object {
  return { now: world.clock.now(), ...world.clock.setting() }
}

function setEveryone({ clock }: World, params: Params): void {
  const now = params.integer('now')
  const offset = params.integer('offset_seconds', -Infinity)
  const advance = params.integer('advance_seconds', -Infinity)
  if (params.boolean('reset') === true) clock.offset(0)
  if (now !== undefined) clock.freeze(now)
  if (offset !== undefined) clock.offset(offset)
  if (advance !== undefined) clock.advance(advance)
}

function moveOn({ clock }: World, params: Params, customer: string): void {
  const present = clock.nowOf(customer)
  const to = params.integer('now') ?? present + (params.integer('advance_seconds') ?? 0)
  if (to < present) throw impossible(`the subscription's clock is at ${present} and does not go back`)
  clock.moveCustomer(customer, to)
}
