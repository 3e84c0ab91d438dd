import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { asJson, takeFirst } from '../events.ts'
import { newId } from '../ids.ts'
import { apiVersion } from '../objects/api-version.ts'
import { at, causedBy, realTime, type Owner, type World } from '../world.ts'
import { authenticate } from './accounts.ts'
import { isValidationError, StripeError } from './errors.ts'
import { expand } from './expand.ts'
import { parseForm } from './forms.ts'
import { routes, type Route } from './routes.ts'

const temporary = { type: 'api_error', message: 'The server failed for a moment. (simulated)' } as const

/** The errors that a fault can answer with. */
const faultErrors = {
  403: {
    type: 'invalid_request_error',
    message:
      "The provided key 'sk_test_*********' does not have the required permissions for this endpoint. (simulated)",
  },
  409: {
    code: 'idempotency_key_in_use',
    type: 'idempotency_error',
    message: 'There is currently another in-progress request using this Idempotent Key. (simulated)',
  },
  429: {
    code: 'rate_limit',
    type: 'invalid_request_error',
    message: 'Request rate limit exceeded. (simulated)',
  },
  500: temporary,
  503: temporary,
} as const

/** `timeout` closes the connection after `delay_ms`, `reset` at once; `hang` never answers. */
export const faultKinds = ['403', '409', '429', '500', '503', 'timeout', 'hang', 'reset'] as const

/** A fault for the next matching API calls. */
export type Fault = {
  answer: (typeof faultKinds)[number]
  remaining: number | null
  method?: string | undefined
  /** The beginning of the path. */
  path?: string | undefined
  account?: string | undefined
  /** True: the call takes effect, and only its answer is lost. False: the call has no effect. */
  applied: boolean
  delay_ms: number
}

type Answer = { status: number; body: string }

/** Serves the routes: authenticates, applies faults, and replays answers to idempotency keys. */
export function serveApi(server: FastifyInstance, world: World, faults: Fault[]): void {
  // The saved answers of idempotency keys, separately for each account.
  const saved = new Map<string, { request: string; answer: Answer }>()
  for (const route of routes) {
    server.route({
      method: route.method,
      url: route.path,
      handler: (request, reply) => serve({ world, faults, saved }, route, request, reply),
    })
  }
}

type Serving = { world: World; faults: Fault[]; saved: Map<string, { request: string; answer: Answer }> }

async function serve(
  { world, faults, saved }: Serving,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const id = newId('req')
  const key = request.method === 'POST' ? (request.headers['idempotency-key']?.toString() ?? null) : null
  reply.header('request-id', id).header('stripe-version', apiVersion).type('application/json')
  let account: Owner
  try {
    account = authenticate(world, request.headers)
  } catch (error) {
    return send(reply, failure(error, request).answer)
  }
  const [path = ''] = request.url.split('?', 1)
  const fault = takeFirst(
    faults,
    (each) =>
      (each.method ?? request.method) === request.method &&
      path.startsWith(each.path ?? '') &&
      (each.account ?? account) === account,
  )
  if (fault?.applied === false) return fail(request, reply, fault)

  const run = () =>
    at(world, realTime(), () =>
      causedBy(world, { id, idempotency_key: key }, () => answerOf(world, account, route, request)),
    )
  const answer = key === null ? run().answer : once(saved, `${account ?? ''} ${key}`, request, reply, run)
  return fault === undefined ? send(reply, answer) : fail(request, reply, fault)
}

type Outcome = { answer: Answer; savable: boolean }

/** Runs a request with an idempotency key once, and answers its repeats with the saved answer. */
function once(
  saved: Serving['saved'],
  key: string,
  { method, url, body }: FastifyRequest,
  reply: FastifyReply,
  run: () => Outcome,
): Answer {
  const request = `${method} ${url} ${String(body).split('&').toSorted().join('&')}`
  const earlier = saved.get(key)
  if (earlier?.request === request) {
    reply.header('idempotent-replayed', 'true')
    return earlier.answer
  }
  if (earlier !== undefined) {
    const message =
      'Keys for idempotent requests can only be used with the same parameters they were first used with.'
    return errorAnswer(400, { type: 'idempotency_error', message })
  }
  const { answer, savable } = run()
  if (savable) saved.set(key, { request, answer })
  return answer
}

/** Runs a route synchronously, so that calls never interleave. */
function answerOf(world: World, account: Owner, route: Route, request: FastifyRequest): Outcome {
  try {
    const { id = '' } = request.params as { id?: string }
    const body = typeof request.body === 'string' ? request.body : ''
    const given = request.method === 'POST' ? parseForm(body) : request.query
    const { expand: paths = {}, ...values } = given as Record<string, object>
    const result = route.run({ world, account, id }, values)
    const answer = asJson(expand(world, account, result, Object.values(paths) as string[]))
    return { answer: { status: 200, body: answer }, savable: true }
  } catch (error) {
    return failure(error, request)
  }
}

function failure(error: unknown, request: FastifyRequest): Outcome {
  if (error instanceof StripeError) {
    return { answer: errorAnswer(error.status, error.body), savable: !isValidationError(error) }
  }
  request.log.error(error, 'the simulator failed')
  const body = { type: 'api_error', message: 'The simulator itself failed.' }
  return { answer: errorAnswer(500, body), savable: false }
}

function errorAnswer(status: number, error: object): Answer {
  return { status, body: JSON.stringify({ error }, null, 2) }
}

async function fail(request: FastifyRequest, reply: FastifyReply, fault: Fault): Promise<FastifyReply> {
  const { answer } = fault
  if (answer !== 'hang' && answer !== 'reset' && answer !== 'timeout') {
    return send(reply, errorAnswer(Number(answer), faultErrors[answer]))
  }
  reply.hijack()
  if (answer === 'reset') request.raw.socket.resetAndDestroy()
  if (answer === 'timeout') {
    await sleep(fault.delay_ms)
    request.raw.socket.destroy()
  }
  return reply
}

function send(reply: FastifyReply, { status, body }: Answer): FastifyReply {
  return reply.code(status).send(body)
}
