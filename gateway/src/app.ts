import type { Health } from '@licensing/process/health'
import type { Logger } from '@licensing/process/log'
import { withRequestContext } from '@licensing/process/context'
import type { RequestContext } from '@licensing/process/context'
import { context as traceContext } from '@opentelemetry/api'
import type { Span } from '@opentelemetry/api'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import fastify from 'fastify'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { admit } from './admission/admit.ts'
import type { AdmissionDependencies } from './admission/admit.ts'
import { Applications } from './admission/applications.ts'
import { limitKeyOf } from './admission/client-address.ts'
import type { TrustsProxy } from './admission/client-address.ts'
import { Principals } from './admission/principals.ts'
import { Throttle } from './admission/throttle.ts'
import type { RateLimits } from './admission/throttle.ts'
import { BodyBudget, bodyLimits, readBody } from './http/bodies.ts'
import type { Sender } from './http/bodies.ts'
import { BrokenRequests } from './http/broken-request.ts'
import { notJson, refuseEncoded, refuseMalformed, requestIdOf } from './http/request.ts'
import { allowAnyOrigin, UnknownRoutes } from './http/not-found.ts'
import { asServiceError, sendProblem } from './http/problem.ts'
import { firstRefusal, mount } from './mount.ts'
import { mountAuthorizedPage } from './pages/authorized.ts'
import { mountConfirmAlertEmail } from './pages/confirm-alert-email.ts'
import { mountCustomerPage } from './pages/customer-page.ts'
import { mountPages } from './pages/pages.ts'
import { declares } from './openapi/route-errors.ts'
import type { IdentityProviderSettings } from './portal/identity-provider.ts'
import { IdentityProvider } from './portal/identity-provider.ts'
import { mountPortal } from './portal/portal-files.ts'
import { mountSessions } from './portal/session-routes.ts'
import { mountSignIn } from './portal/sign-in-routes.ts'
import type { SessionKeys } from './admission/session-encryption.ts'
import { Sessions } from './admission/sessions.ts'
import { isForBrowsers, senderKinds } from './route.ts'
import { routes } from './routes/table.ts'
import type { Services } from './services.ts'
import { recordAnswer, startSpan } from './telemetry.ts'

export interface GatewayDependencies {
  services: Services
  limits: RateLimits
  health: Health
  /** One probe for each service. `/readyz` also reports them. */
  parts: Health
  log: Logger
  /** Proxies whose X-Forwarded-For is trusted; false for none. */
  trustProxy: false | TrustsProxy
  /** Public address of the gateway, for the API reference. */
  publicUrl?: string | undefined
  /** Folders of the guides and the packed packages. They need not exist. */
  guidesFolder?: string | undefined
  downloadsFolder?: string | undefined
  /** Folder of the built portal. It need not exist. */
  portalFolder: string
  /** Encrypts the portal's sessions. If it is absent, nobody can sign in. */
  sessionKeys?: SessionKeys | undefined
  /** If it is absent, people sign in with API keys alone. */
  identityProvider?: IdentityProviderSettings | undefined
  /** How long a complete request may take to arrive, in milliseconds. Default: 30 s. */
  requestMs?: number
}

declare module 'fastify' {
  interface FastifyRequest {
    context: RequestContext
    span: Span | null
    /** Emits `close` when the request has been answered or given up. */
    response: ServerResponse
  }
}

const keepAliveMs = 72_000
const defaultRequestMs = 30_000
// How often Node checks for requests that are too slow. They are refused at most this much too late.
const timeoutCheckMs = 500
// Longer than any request line, so that an id of any length reaches its route, which refuses it in the documented order.
const maxParamLength = 65_536

/** Builds the gateway: all routes, the pages, and the handling that all requests share. */
export async function buildApp(deps: GatewayDependencies): Promise<FastifyInstance> {
  const admission: AdmissionDependencies = {
    services: deps.services,
    principals: new Principals(deps.services.catalog),
    applications: new Applications(deps.services.catalog),
    throttle: new Throttle(deps.limits),
    sessions: new Sessions(deps.sessionKeys, deps.publicUrl),
    publicUrl: deps.publicUrl,
  }
  const requestMs = deps.requestMs ?? defaultRequestMs
  const broken = new BrokenRequests()
  const app = fastify({
    trustProxy: deps.trustProxy,
    genReqId: requestIdOf,
    bodyLimit: bodyLimits.product,
    keepAliveTimeout: keepAliveMs,
    requestTimeout: requestMs,
    http: {
      headersTimeout: requestMs,
      connectionsCheckingInterval: timeoutCheckMs,
      // `refuseMalformed` refuses such a request with a problem.
      requireHostHeader: false,
    },
    // Requests in progress when the process stops are answered, not refused.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => void broken.answer(error, socket),
    frameworkErrors: (error, request, reply) => answerUnroutable(error, admission, request, reply),
    routerOptions: { maxParamLength: maxParamLength },
  })
  broken.watch(app.server)
  const unknown = new UnknownRoutes()
  const read = bodyReader(new BodyBudget())
  takeBodiesAsBytes(app, read)
  addHooks(app, deps, admission, unknown)
  app.setErrorHandler((thrown, request, reply) => answerError(thrown, admission, deps.log, request, reply))
  app.setNotFoundHandler((request, reply) => unknown.answer(request, reply))
  app.addHook('onRoute', ({ method, url, config }) => {
    const forBrowsers = isForBrowsers(config?.route)
    for (const name of [method].flat()) unknown.add(name, url.replaceAll(/:([^/]+)/g, '{$1}'), forBrowsers)
  })
  for (const route of routes) {
    if (route.rawBody)
      await app.register(async (scope) => mount(acceptAnyBody(scope, read), route, admission))
    else mount(app, route, admission)
  }
  await app.register(async (scope) => mountAuthorizedPage(acceptAnyBody(scope, read), admission, deps.log))
  await app.register(async (scope) => mountConfirmAlertEmail(acceptAnyBody(scope, read), admission, deps.log))
  await mountPages(app, deps)
  mountSessions(app, admission)
  const provider = deps.identityProvider && new IdentityProvider(deps.identityProvider)
  await app.register(async (scope) => mountSignIn(acceptAnyBody(scope, read), admission, provider, deps.log))
  await mountPortal(app, deps.portalFolder)
  await mountCustomerPage(app, admission, deps.portalFolder)
  return app
}

function addHooks(
  app: FastifyInstance,
  { log }: GatewayDependencies,
  admission: AdmissionDependencies,
  unknown: UnknownRoutes,
): void {
  app.decorateRequest('call', null)
  app.decorateRequest('isInputValid', false)
  app.decorateRequest('span', null)
  app.decorateRequest('context')
  app.decorateRequest('response')
  let stopping = false
  app.addHook('preClose', () => {
    stopping = true
  })
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    const { span, context } = startSpan(request)
    request.span = span
    request.context = { requestId: request.id }
    request.response = reply.raw
    traceContext.with(context, () =>
      withRequestContext(request.context, () => {
        letIn(admission, unknown, request, reply).then(() => done(), done)
      }),
    )
  })
  // Also for requests that arrived before the stop, because a keep-alive connection would keep the server open.
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (stopping) reply.header('connection', 'close')
    done(null, payload)
  })
  app.addHook('onResponse', (request, reply, done) => {
    recordAnswer(log, request, reply, request.span)
    done()
  })
}

async function letIn(
  admission: AdmissionDependencies,
  unknown: UnknownRoutes,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  refuseMalformed(request.raw)
  if (request.is404) {
    // No route reads the body, so the request is answered before it.
    if (request.url.startsWith('/v1/')) admission.throttle.unauthenticated(reply, limitKeyOf(request.ip))
    return unknown.answer(request, reply)
  }
  removeTypeOfEmptyBody(request)
  const { route } = request.routeOptions.config
  if (route) {
    if (isForBrowsers(route)) allowAnyOrigin(reply)
    request.call = await admit(admission, route, request, reply)
    if (request.call.audience === 'vendor') {
      request.context.accountId = request.call.accountId
      request.context.caller = { actor: request.call.actorId, operation: route.operationId }
    }
  }
  refuseEncoded(request.raw)
}

// Answers a request whose path the router cannot parse, such as invalid percent-encoding. No hook runs for it.
function answerUnroutable(
  thrown: unknown,
  { throttle }: AdmissionDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  reply.header('x-request-id', request.id)
  let error = asServiceError(thrown)
  try {
    throttle.unauthenticated(reply, limitKeyOf(request.ip))
  } catch (limited) {
    error = asServiceError(limited)
  }
  sendProblem(reply, error, request.id)
}

async function answerError(
  thrown: unknown,
  admission: AdmissionDependencies,
  log: Logger,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const error = await firstRefusal(asServiceError(thrown), admission, request, reply)
  if (error.code === 'internal') log.error({ err: thrown, request_id: request.id }, 'request failed')
  const { route } = request.routeOptions.config
  // The error is still sent, because a client that knows the catalogue can read it. Tests fail on this log line.
  if (route && !declares(route, error.code)) {
    log.error(
      { operation: route.operationId, code: error.code },
      'an error code that the route does not declare',
    )
  }
  if (error.code === 'unavailable') log.warn({ err: thrown, request_id: request.id }, 'unavailable')
  // If a body is refused, fastify closes the connection, and a client that is still sending would lose the answer. Instead the
  // rest of the body is discarded until the time limit of the request.
  if (!request.raw.complete) reply.removeHeader('connection')
  return sendProblem(reply, error, request.id)
}

type ReadBody = (request: FastifyRequest, stream: Readable) => Promise<Buffer>

/** Reads bodies of requests. Each counts in the budget until its request has been answered. */
function bodyReader(budget: BodyBudget): ReadBody {
  return (request, stream) => {
    const held = budget.begin(senderOf(request))
    request.response.once('close', () => held.release())
    const { 'content-length': length } = request.headers
    const declaredBytes = length === undefined ? undefined : Number(length)
    return readBody(stream, { declaredBytes, limit: request.routeOptions.bodyLimit }, held)
  }
}

function senderOf({ call, ip }: FastifyRequest): Sender {
  const caller = call?.audience === 'vendor' ? call.accountId : limitKeyOf(ip)
  return { kind: call ? senderKinds[call.audience] : 'product', caller }
}

// Bodies are read as bytes and parsed later, in the order of refusals. A body of another media type is not read.
function takeBodiesAsBytes(app: FastifyInstance, read: ReadBody): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', read)
  app.addContentTypeParser('*', (_request, payload, done) => {
    // Whether a chunked body is empty is known only when its first bytes arrive. The rest is discarded.
    Promise.race([
      once(payload, 'data').then(() => notJson),
      once(payload, 'end').then(() => undefined),
    ]).then((body) => done(null, body), done)
  })
}

function acceptAnyBody(scope: FastifyInstance, read: ReadBody): FastifyInstance {
  scope.removeContentTypeParser('*')
  scope.addContentTypeParser('*', read)
  return scope
}

// Some clients send a media type without a body, which must not be refused. Whether a chunked body is empty is known only
// when it is read.
function removeTypeOfEmptyBody({ headers }: FastifyRequest): void {
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': encoding } = headers
  const mayBeEmpty =
    encoding === undefined
      ? length === undefined || length === '0'
      : type !== undefined && !/^application\/json\s*(?:;|$)/i.test(type)
  if (mayBeEmpty) delete headers['content-type']
}
