import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Fault, FaultKind, Faults } from '../http/faults.ts'
import { fingerprintOf, type Answer, type IdempotencyKeys } from '../http/idempotency.ts'
import { Params, parseForm } from '../http/params.ts'
import { isValidationError, StripeError } from '../http/stripe-error.ts'
import { apiVersion } from '../objects/api-version.ts'
import type { Cause } from '../objects/event.ts'
import type { Owner } from '../world/collection.ts'
import { asEmbedded } from '../world/emitter.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { authenticate } from './accounts.ts'
import type { Handler, Route } from './call.ts'
import { expand } from './expand.ts'

export type Api = {
  world: World
  keys: IdempotencyKeys
  faults: Faults
  changed: () => void
}

/** Serves the routes: authenticates, applies faults, and replays answers to idempotency keys. */
export function serveApi(server: FastifyInstance, api: Api, routes: Route[]): void {
  for (const [method, url, handler] of routes) {
    server.route({ method, url, handler: (request, reply) => serve(api, handler, request, reply) })
  }
}

async function serve(
  api: Api,
  handler: Handler,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const requestId = newId('req')
  reply.header('request-id', requestId).header('stripe-version', apiVersion).type('application/json')
  let account: Owner
  try {
    account = authenticate(api.world, request.headers)
  } catch (error) {
    return send(reply, errorResult(error, request.log).answer)
  }
  const { method, url, headers } = request
  const path = url.split('?', 1)[0] ?? ''
  const key = method === 'POST' ? (headers['idempotency-key']?.toString() ?? null) : null
  if (account !== null) reply.header('stripe-account', account)
  if (key !== null) reply.header('idempotency-key', key)

  const fault = api.faults.take(method, path, account)
  const call: IncomingCall = { method, path, account, key, requestId }
  if (fault?.applied === false) return corrupt(request, reply, fault, call)
  const answer = once(api, request, reply, call, () => {
    const { id = '' } = request.params as { id?: string }
    const parameters = method === 'POST' ? request.body : request.query
    const cause = { id: requestId, idempotency_key: key }
    const result = runCall(api.world, handler, { account, id, parameters, cause }, request.log)
    if (method !== 'GET') api.changed()
    return result
  })
  return fault === undefined ? send(reply, answer) : corrupt(request, reply, fault, call)
}

type IncomingCall = {
  method: string
  path: string
  account: Owner
  key: string | null
  requestId: string
}

/** Runs a request with an idempotency key once, and answers its repeats with the saved answer. */
function once(
  api: Api,
  request: FastifyRequest,
  reply: FastifyReply,
  { method, path, account, key, requestId }: IncomingCall,
  run: () => CallResult,
): Answer {
  if (key === null) return run().answer
  const rawBody = typeof request.body === 'string' ? request.body : ''
  const fingerprint = fingerprintOf(method, path, rawBody)
  try {
    const saved = api.keys.replay(account, key, fingerprint)
    if (saved !== undefined) {
      reply.header('idempotent-replayed', 'true').header('original-request', saved.requestId)
      return saved.answer
    }
  } catch (error) {
    return errorResult(error, request.log).answer
  }
  const { answer, savable } = run()
  if (savable) {
    api.keys.save(account, key, { fingerprint, answer, requestId })
    api.changed()
  }
  return answer
}

async function corrupt(
  request: FastifyRequest,
  reply: FastifyReply,
  fault: Fault,
  call: IncomingCall,
): Promise<FastifyReply> {
  switch (fault.answer) {
    case 'reset':
      reply.hijack()
      request.raw.socket.resetAndDestroy()
      return reply
    case 'timeout':
      reply.hijack()
      await sleep(fault.delay_ms)
      request.raw.socket.destroy()
      return reply
    case 'hang':
      return reply.hijack()
    default:
      return send(reply, faultAnswer(fault.answer, call))
  }
}

function send(reply: FastifyReply, { status, body }: Answer): FastifyReply {
  return reply.code(status).send(body)
}

/** An answer, and whether it is saved under an idempotency key. */
type CallResult = { answer: Answer; savable: boolean }

type Incoming = { account: Owner; id: string; parameters: unknown; cause: Cause }

/** Runs a handler synchronously, so that calls never interleave. */
function runCall(world: World, handler: Handler, incoming: Incoming, log: FastifyBaseLogger): CallResult {
  const { account, id, parameters, cause } = incoming
  try {
    const tree = typeof parameters === 'string' ? parseForm(parameters) : Object(parameters)
    const { expand: paths, ...values } = tree as Record<string, unknown>
    const params = new Params(values)
    const result = world.emitter.causedBy(cause, () => handler({ world, account, id, params }))
    const expanded = expand(world, account, result, new Params({ paths }).strings('paths'))
    return {
      answer: { status: 200, body: JSON.stringify(asEmbedded(expanded), null, 2) },
      savable: true,
    }
  } catch (error) {
    return errorResult(error, log)
  }
}

function errorResult(error: unknown, log: FastifyBaseLogger): CallResult {
  if (error instanceof StripeError) {
    const body = JSON.stringify({ error: error.body }, null, 2)
    return { answer: { status: error.status, body }, savable: !isValidationError(error) }
  }
  log.error(error, 'the simulator failed')
  const body = JSON.stringify({ error: { type: 'api_error', message: 'The simulator itself failed.' } })
  return { answer: { status: 500, body }, savable: false }
}

/** Stripe's answer for an injected fault. */
function faultAnswer(kind: FaultKind, call: IncomingCall): Answer {
  const answer = (status: number, error: object): Answer => ({
    status,
    body: JSON.stringify({ error }, null, 2),
  })
  switch (kind) {
    case '403':
      return answer(403, { message: missingPermission(call), type: 'invalid_request_error' })
    case '409':
      return answer(409, {
        code: 'idempotency_key_in_use',
        message:
          'There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through). (simulated)',
        type: 'idempotency_error',
      })
    case '429':
      return answer(429, {
        code: 'rate_limit',
        message: 'Request rate limit exceeded. (simulated)',
        type: 'invalid_request_error',
      })
    case '503':
      return answer(503, { message: 'The server is unavailable. (simulated)', type: 'api_error' })
    default:
      return answer(500, { message: 'An unknown error occurred. (simulated)', type: 'api_error' })
  }
}

/** `/v1/checkout/sessions/cs_1` is read with the permission `rak_checkout_session_read`. */
function missingPermission({ method, path, account }: IncomingCall): string {
  const names = path.split('/').filter((part) => /^[a-z_]+$/.test(part) && !/_(sim|test)/.test(part))
  const resource = names.map((name) => name.replace(/s$/, '')).join('_')
  const permission = `rak_${resource}_${method === 'GET' ? 'read' : 'write'}`
  return `The provided key 'sk_test_*********' does not have the required permissions for this endpoint on account '${account ?? 'acct_simPlatform'}'. Having the '${permission}' permission would allow this request to continue.`
}
