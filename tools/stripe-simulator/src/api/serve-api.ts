import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Fault, FaultKind, Faults } from '../http/faults.ts'
import { fingerprintOf, type Answer, type IdempotencyKeys } from '../http/idempotency.ts'
import { Params, parseForm } from '../http/params.ts'
import type { LoggedRequest, RequestLog } from '../http/request-log.ts'
import { isValidationError, StripeError } from '../http/stripe-error.ts'
import { apiVersion } from '../objects/api-version.ts'
import type { Cause } from '../objects/event.ts'
import type { Owner } from '../world/collection.ts'
import { asEmbedded, withLivemode } from '../world/emitter.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { authenticate } from './accounts.ts'
import type { Handler, Route } from './call.ts'
import { expand } from './expand.ts'

export type Api = {
  world: World
  keys: IdempotencyKeys
  faults: Faults
  requests: RequestLog
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
  const { method } = request
  const path = request.url.split('?', 1)[0] ?? ''
  const key = method === 'POST' ? (request.headers['idempotency-key']?.toString() ?? null) : null
  if (account !== null) reply.header('stripe-account', account)
  if (key !== null) reply.header('idempotency-key', key)

  const fault = api.faults.take(method, path, account)
  const logged = api.requests.add({
    request_id: requestId,
    method,
    path,
    account,
    idempotency_key: key,
    replayed: false,
    fault: fault?.answer ?? null,
    status: null,
  })
  if (fault !== undefined && !fault.applied && !fault.saved) return corrupt(request, reply, fault, logged)

  const answer = once(api, request, reply, logged, () => {
    const spoilt = fault?.saved === true && { answer: faultAnswer(fault.answer, logged), savable: true }
    if (spoilt && !fault.applied) return spoilt
    const { id = '' } = request.params as { id?: string }
    const parameters = method === 'POST' ? request.body : request.query
    const cause = { id: requestId, idempotency_key: key }
    const result = runCall(api.world, handler, { account, id, parameters, cause }, request.log)
    if (method !== 'GET') api.changed()
    return spoilt || result
  })
  if (fault?.applied === true) return corrupt(request, reply, fault, logged)
  logged.status = answer.status
  return send(reply, answer)
}

/** Runs a request with an idempotency key once, and answers its repeats with the saved answer. */
function once(
  api: Api,
  request: FastifyRequest,
  reply: FastifyReply,
  logged: LoggedRequest,
  run: () => CallResult,
): Answer {
  const { account, idempotency_key: key, request_id: requestId } = logged
  if (key === null) return run().answer
  const rawBody = typeof request.body === 'string' ? request.body : ''
  const fingerprint = fingerprintOf(logged.method, logged.path, rawBody)
  try {
    const saved = api.keys.replay(account, key, fingerprint)
    if (saved !== undefined) {
      logged.replayed = true
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
  logged: LoggedRequest,
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
    default: {
      const answer = faultAnswer(fault.answer, logged)
      logged.status = answer.status
      return send(reply, answer)
    }
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
    const answer = withLivemode(world.settings.of(account).livemode, asEmbedded(expanded))
    return { answer: { status: 200, body: JSON.stringify(answer, null, 2) }, savable: true }
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

export type Refused = { method: string; path: string; account: Owner }

/** Stripe's answer for an injected fault. */
function faultAnswer(kind: FaultKind, refused: Refused): Answer {
  const answer = (status: number, error: object): Answer => ({
    status,
    body: JSON.stringify({ error }, null, 2),
  })
  switch (kind) {
    case '403':
      return answer(403, { message: missingPermission(refused), type: 'invalid_request_error' })
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
    case 'lock_timeout':
      return answer(429, {
        code: 'lock_timeout',
        message:
          'This object cannot be accessed right now because another API request or Stripe process is currently accessing it. (simulated)',
        type: 'invalid_request_error',
      })
    case '503':
      return answer(503, { message: 'The server is unavailable. (simulated)', type: 'api_error' })
    default:
      return answer(500, { message: 'An unknown error occurred. (simulated)', type: 'api_error' })
  }
}

/** `/v1/checkout/sessions/cs_1` is read with the permission `rak_checkout_session_read`. */
function missingPermission({ method, path, account }: Refused): string {
  const names = path.split('/').filter((part) => /^[a-z_]+$/.test(part) && !/_(sim|test)/.test(part))
  const resource = names.map((name) => name.replace(/s$/, '')).join('_')
  const permission = `rak_${resource}_${method === 'GET' ? 'read' : 'write'}`
  return `The provided key 'sk_test_*********' does not have the required permissions for this endpoint on account '${account ?? 'acct_simPlatform'}'. Having the '${permission}' permission would allow this request to continue.`
}
