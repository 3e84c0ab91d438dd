import type { FastifyInstance } from 'fastify'
import { runDue } from '../flows/run-due.ts'
import { faultKinds } from '../http/faults.ts'
import { Params } from '../http/params.ts'
import { noSuch, StripeError } from '../http/stripe-error.ts'
import { dumpWorld, type World } from '../world/world.ts'
import { runAction } from './actions.ts'
import type { Control } from './control.ts'
import { deliveryRoutes } from './delivery-routes.ts'

/** Serves the control API under `/_sim`, which Stripe does not have. It takes and returns JSON. */
export function serveControl(server: FastifyInstance, control: Control): void {
  const { world, faults, changed } = control
  server.register(
    (scope, _options, done) => {
      scope.setErrorHandler((error, _request, reply) => {
        if (error instanceof StripeError) return reply.code(error.status).send({ error: error.body })
        throw error
      })
      deliveryRoutes(scope, control)

      scope.get('/state', () => dumpWorld(world))
      scope.post('/clock', (request) => {
        const state = setClock(world, new Params(request.body))
        changed()
        return state
      })

      scope.post('/faults', (request) => addFault(control, new Params(request.body)))
      scope.delete('/faults', () => {
        faults.clear()
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

function addFault({ faults }: Control, params: Params): object {
  params.only('answer', 'next', 'until_cleared', 'method', 'path', 'account', 'applied', 'delay_ms')
  const answer = params.oneOf('answer', faultKinds)
  if (answer === undefined) throw params.missing('answer')
  return faults.add({
    answer,
    remaining: params.boolean('until_cleared') === true ? null : (params.integer('next', 1) ?? 1),
    method: params.string('method'),
    path: params.string('path'),
    account: params.string('account'),
    applied: params.boolean('applied') ?? false,
    delay_ms: params.integer('delay_ms') ?? 1000,
  })
}

/** Moves the simulator's clock, and runs everything that becomes due. */
function setClock(world: World, params: Params): object {
  params.only('now', 'offset_seconds')
  const { clock } = world
  const now = params.integer('now')
  const offset = params.integer('offset_seconds', -Infinity)
  if (now !== undefined) clock.freeze(now)
  if (offset !== undefined) clock.offset(offset)
  runDue(world)
  return { now: clock.now(), ...clock.setting() }
}
