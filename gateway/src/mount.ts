import { ServiceError } from '@licensing/grpc/errors'
import { withIdempotencyKey } from '@licensing/grpc/idempotency-key'
import { errorCatalogue } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AdmissionDependencies } from './admission/admit.ts'
import { limitKeyOf } from './admission/client-address.ts'
import type { Throttle } from './admission/throttle.ts'
import { bodyHash } from './http/canonical-json.ts'
import { readInput, sentIdempotencyKey } from './read-input.ts'
import { takesIdempotencyKey } from './route.ts'
import type { Call, Route, RouteAnswer } from './route.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The entry of the route table. */
    route?: Route
  }
  interface FastifyRequest {
    /** Set when the request has been admitted. */
    call: Call | null
    /** True when the input is valid. Later errors come from the handler. */
    isInputValid: boolean
  }
}

const jsonType = 'application/json; charset=utf-8'

/** Adds a route of the table to fastify. The `onRequest` hook in `app.ts` has admitted the request before. */
export function mount(app: FastifyInstance, route: Route, { throttle }: AdmissionDependencies): void {
  app.route({
    method: route.method,
    url: route.path.replaceAll(/\{([^}]+)\}/g, ':$1'),
    bodyLimit: route.bodyLimit,
    config: { route },
    handler: async (request, reply) => {
      const call = request.call!
      readInput(route, call, request.query, request.body)
      request.isInputValid = true
      const answer = await withGuessableKey(route, call, throttle, reply, () => answerOf(route, call))
      reply.code(answer.status ?? route.status)
      if (route.audience === 'vendor') reply.header('cache-control', 'no-store')
      if (answer.headers) reply.headers(answer.headers)
      const json = answer.json ?? (answer.body === undefined ? undefined : JSON.stringify(answer.body))
      if (json === undefined) return reply.send()
      return reply.header('content-type', answer.headers?.['content-type'] ?? jsonType).send(json)
    },
  })
}

// A licence with one of these answers exists, so its key is right.
const refusalsOfRightKeys: readonly ErrorCode[] = ['licence_refused', 'limit_reached', 'quota_exceeded']

/** Answers a call that may name a licence key. If its caller has sent too many wrong ones, an unknown key is not looked up. */
async function withGuessableKey(
  { guessableKey }: Route,
  call: Call,
  throttle: Throttle,
  reply: FastifyReply,
  answer: () => Promise<RouteAnswer>,
): Promise<RouteAnswer> {
  if (!guessableKey) return answer()
  const key = guessableKey(call)
  throttle.checkKey(reply, call.caller, key)
  try {
    const answered = await answer()
    throttle.rememberRightKey(call.caller, key)
    return answered
  } catch (error) {
    if (error instanceof ServiceError && refusalsOfRightKeys.includes(error.code)) {
      throttle.rememberRightKey(call.caller, key)
    }
    throw error
  }
}

async function answerOf(route: Route, call: Call): Promise<RouteAnswer> {
  const key = sentIdempotencyKey(call)
  if (key === undefined || route.needsIdempotencyKey || !takesIdempotencyKey(route)) return route.handle(call)
  const sent = { path: pathOf(route, call), key, bodyHash: bodyHash(call.sentBody) }
  const { value: answer, replayed } = await withIdempotencyKey(sent, () => route.handle(call))
  if (!replayed) return answer
  return { ...answer, headers: { ...answer.headers, 'idempotent-replayed': 'true' } }
}

// Returns the same text for each path, whichever characters the request percent-encoded.
function pathOf(route: Route, call: Call): string {
  const params: Readonly<Record<string, string>> = call.params
  return route.path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => params[name]!)
}

/**
 * The refusal that comes first in the documented order. A missing resource or a wrong token comes before invalid input. If
 * a caller has sent too many wrong licence keys, `rate_limited` comes before the refusal of the key.
 */
export async function firstRefusal(
  thrown: ServiceError,
  { throttle }: AdmissionDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<ServiceError> {
  const { route } = request.routeOptions.config
  if (!route) return thrown
  let error = thrown
  const lookUp = lookUpOf(route)
  if (request.call && !request.isInputValid && lookUp && errorCatalogue[error.code].http < 500) {
    const missing = await refusalOf(() => lookUp(request.call!))
    if (missing?.code === 'not_found' || missing?.code === 'unauthenticated') error = missing
  }
  if (isWrongKey(route, request, error)) {
    const limited = await refusalOf(() => throttle.countWrongKey(reply, limitKeyOf(request.ip)))
    if (limited) return limited
  }
  return error
}

/** Whether a refusal shows that the licence key, legacy key or token is not genuine. */
function isWrongKey(route: Route, { isInputValid }: FastifyRequest, { code }: ServiceError): boolean {
  // Tokens are signed: one of an activation that was freed is genuine and gets `not_found`.
  if (route.audience === 'activation') return code === 'unauthenticated'
  // Before the input is valid, `not_found` is about the application in the path.
  return route.guessableKey !== undefined && isInputValid && code === 'not_found'
}

/** Finds out whether the resource in the path exists. For a GET without parameters that is its handler. */
function lookUpOf(route: Route): ((call: Call) => Promise<unknown>) | undefined {
  return route.lookUp ?? (route.method === 'GET' && !route.query ? route.handle : undefined)
}

async function refusalOf(work: () => unknown): Promise<ServiceError | undefined> {
  try {
    await work()
    return undefined
  } catch (error) {
    return error instanceof ServiceError ? error : undefined
  }
}
