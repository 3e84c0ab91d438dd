import { ServiceError } from '@licensing/grpc/errors'
import { readMember } from '@licensing/proto/closed-sets'
import type { FoundCustomerSession } from '@licensing/proto/customers'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isId, noSuch, pathIds } from '../fields/id.ts'
import type { Audience, Call, Request, Route, VendorCall } from '../route.ts'
import type { Sessions } from './sessions.ts'
import type { Services } from '../services.ts'
import { noApplication } from './applications.ts'
import type { Applications } from './applications.ts'
import { limitKeyOf } from './client-address.ts'
import { bearerOf, hashOfKey } from './principals.ts'
import type { Principals } from './principals.ts'
import type { Throttle } from './throttle.ts'

export interface AdmissionDependencies {
  services: Services
  principals: Principals
  applications: Applications
  throttle: Throttle
  sessions: Sessions
  publicUrl?: string | undefined
}

/**
 * Admits or refuses a request in the order of decisions.md, section 1: key, scope, application in the path. The checks
 * that need the body (media type, size, JSON, shape) follow in `read-input.ts`.
 */
export async function admit(
  deps: AdmissionDependencies,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Call> {
  const { audience } = route
  const call =
    audience === 'vendor'
      ? await admitVendor(deps, route, request, reply)
      : await admitKeyless(deps, { route, audience }, request, reply)
  for (const [name, id] of Object.entries(call.params)) {
    const expected = pathIds[name]
    // For an activation the service decides: it must check the token before it reveals whether the activation exists.
    if (expected && audience !== 'activation' && !isId(expected.prefix, id)) {
      throw new ServiceError('not_found', noSuch(expected))
    }
  }
  const { app_id: applicationId } = call.params
  if (applicationId !== undefined) await checkApplication(deps, call, applicationId)
  return call
}

async function admitVendor(
  deps: AdmissionDependencies,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<VendorCall> {
  const principal = await authenticate(deps, request, reply)
  deps.throttle.key(reply, principal.actorId)
  const scopes = principal.scopes.map((scope) => readMember('scope', scope))
  const role = principal.role === undefined ? undefined : readMember('memberRole', principal.role)
  const who = role === undefined ? 'the API key' : `your role ${role}`
  if (!route.scopes.some((scope) => scopes.includes(scope))) {
    const needed =
      route.scopes.length > 1
        ? `one of the scopes ${route.scopes.join(', ')}`
        : `the scope ${route.scopes[0]}`
    throw new ServiceError('insufficient_scope', `this needs ${needed}; ${who} has ${scopes.join(', ')}`)
  }
  if (route.accountWide && principal.applicationId !== undefined) {
    throw new ServiceError(
      'insufficient_scope',
      `${who} is bound to application ${principal.applicationId}; use an API key or a member with the scope ${route.scopes[0]} that is not bound`,
    )
  }
  if (route.ownersOnly && role !== undefined && role !== 'owner') {
    throw new ServiceError('insufficient_scope', `this needs the role owner; ${who} is not enough`)
  }
  return {
    ...requestOf(deps, request),
    audience: 'vendor',
    accountId: principal.accountId,
    actorId: principal.actorId,
    scopes,
    onlyApplicationId: principal.applicationId,
    role,
  }
}

async function authenticate(
  { principals, sessions, throttle }: AdmissionDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const caller = limitKeyOf(request.ip)
  try {
    const credential = sessions.credentialOf(request) ?? hashOfKey(bearerOf(request.headers.authorization))
    return await principals.principalOf(credential, caller)
  } catch (error) {
    throttle.unauthenticated(reply, caller)
    throw error
  }
}

async function admitKeyless(
  deps: AdmissionDependencies,
  { route, audience }: { route: Route; audience: Exclude<Audience, 'vendor'> },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Call> {
  const caller = limitKeyOf(request.ip)
  if (audience === 'processor') {
    deps.throttle.processor(reply, caller)
    if (route.rawBody) checkSignatureForm(signatureOf(request))
  } else deps.throttle.product(reply, caller)
  if (audience === 'processor' || audience === 'product') return { ...requestOf(deps, request), audience }
  const token = bearerOf(request.headers.authorization)
  if (audience === 'customer') {
    const session = await customerSession(deps, token, reply, caller)
    return { ...requestOf(deps, request), audience, session }
  }
  if (token === undefined) {
    throw new ServiceError('unauthenticated', 'send the activation’s token as Authorization: Bearer <token>')
  }
  return { ...requestOf(deps, request), audience, token }
}

/** The session of the vendor's customer. A token that never was one counts as a wrong key of its caller. */
async function customerSession(
  { services, throttle }: AdmissionDependencies,
  token: string | undefined,
  reply: FastifyReply,
  caller: string,
): Promise<FoundCustomerSession> {
  if (token === undefined) {
    throw new ServiceError(
      'unauthenticated',
      'send the token of the customer’s link as Authorization: Bearer cst_…',
    )
  }
  const { session, hasEnded } = await services.customers.findCustomerSession({ token })
  if (session) return session
  if (!hasEnded) throttle.countWrongKey(reply, caller)
  throw new ServiceError(
    'unauthenticated',
    hasEnded
      ? 'this session has ended: open a new link, or sign in with the licence key again'
      : 'this is not the token of a customer session: open the link again, unchanged',
  )
}

function signatureOf({ headers }: FastifyRequest): string | undefined {
  const value = headers['stripe-signature']
  return Array.isArray(value) ? value.join(',') : value
}

function requestOf(
  { services, throttle, publicUrl }: AdmissionDependencies,
  request: FastifyRequest,
): Request {
  const caller = limitKeyOf(request.ip)
  return {
    services,
    params: request.params as Record<string, string>,
    query: {},
    body: {},
    sentBody: undefined,
    caller,
    trialsPerAddress: throttle.trialsPerAddress,
    ownUrl: (publicUrl ?? `${request.protocol}://${request.host}`).replace(/\/$/, ''),
    header: (name) => {
      const value = request.headers[name]
      return Array.isArray(value) ? value.join(', ') : value
    },
  }
}

async function checkApplication(
  { applications }: AdmissionDependencies,
  call: Call,
  applicationId: string,
): Promise<void> {
  const vendor = call.audience === 'vendor' ? call : undefined
  if (vendor?.onlyApplicationId !== undefined && vendor.onlyApplicationId !== applicationId) {
    throw noApplication(applicationId)
  }
  const accountId = await applications.accountOf(applicationId)
  if (vendor && accountId !== vendor.accountId) throw noApplication(applicationId)
}

// `t=<seconds>`, one or more `v1=<HMAC-SHA-256 in hexadecimal>`, and possibly other schemes.
const signatureItem = /^(?:t=\d{1,12}|v1=[0-9a-f]{64}|(?!t=|v1=)[a-z]\w{0,15}=[\w.-]{0,200})$/
const maxCharacters = 2_000
// As in billing, which verifies the signature.
const maxAgeSeconds = 300

/**
 * Checks the form and the time of a `Stripe-Signature`, so that a request without a plausible signature is refused before its
 * body is read.
 *
 * @throws ServiceError `bad_request`, as for a signature that does not match
 */
function checkSignatureForm(header: string | undefined): void {
  const items = header === undefined || header.length > maxCharacters ? [] : header.split(',')
  const times = items.filter((text) => text.startsWith('t='))
  const isSigned = items.some((text) => text.startsWith('v1='))
  if (times.length !== 1 || !isSigned || !items.every((text) => signatureItem.test(text))) {
    throw new ServiceError('bad_request', 'the Stripe-Signature header is missing or malformed')
  }
  const ageSeconds = Date.now() / 1000 - Number(times[0]!.slice(2))
  if (Math.abs(ageSeconds) > maxAgeSeconds) {
    throw new ServiceError(
      'bad_request',
      `the time in the Stripe-Signature header differs by more than ${maxAgeSeconds} seconds from this server’s clock`,
    )
  }
}
