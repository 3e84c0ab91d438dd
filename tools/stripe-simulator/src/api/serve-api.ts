import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { setTimeout as sleep } from 'node:timers/promises'
import { faultAnswer } from '../http/fault-answer.ts'
import type { Fault, Faults } from '../http/faults.ts'
import { fingerprintOf } from '../http/idempotency.ts'
import type { Answer, IdempotencyKeys } from '../http/idempotency.ts'
import type { LoggedRequest, RequestLog } from '../http/request-log.ts'
import { apiVersion } from '../objects/api-version.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { authenticate } from './authenticate.ts'
import type { Handler, Route } from './call.ts'
import { errorResult, runCall } from './run-call.ts'
import type { CallResult } from './run-call.ts'

export type Api = {
  world: World
  keys: IdempotencyKeys
  faults: Faults
  requests: RequestLog
  changed: () => void
}

/** Everything between HTTP and a handler: keys, accounts, faults and replays. */
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
  if (fault !== undefined && !fault.applied && !fault.saved) return spoil(request, reply, fault, logged)

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
  if (fault?.applied === true) return spoil(request, reply, fault, logged)
  logged.status = answer.status
  return send(reply, answer)
}

/** Runs a request with an idempotency key once, and answers its repeats with what was saved. */
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

async function spoil(
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
