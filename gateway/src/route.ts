import type { MemberRole, Scope } from '@licensing/proto/closed-sets'
import type { FoundCustomerSession } from '@licensing/proto/customers'
import type { ErrorCode } from '@licensing/proto/errors'
import type { Readable } from 'node:stream'
import { z } from 'zod'
import { bodyLimits } from './http/bodies.ts'
import type { SenderKind } from './http/bodies.ts'
import type { Services } from './services.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * The callers of a route, and their credentials: `vendor` an API key or a session of the portal; `product` none, or a licence key in the body;
 * `activation` the token of an activation; `customer` the token of a customer session; `processor` a signature over the body.
 */
export type Audience = 'vendor' | 'product' | 'activation' | 'customer' | 'processor'

/** The part of a request that every handler gets. */
export interface Request {
  services: Services
  params: Readonly<Record<string, string>>
  query: unknown
  body: unknown
  /** The body before its schema: parsed JSON, or the exact bytes of a route with `rawBody`. */
  sentBody: unknown
  header(name: string): string | undefined
  /** The caller for rate limits, from `limitKeyOf`. */
  caller: string
  /** How many new trials of an application a caller may start on a UTC day. */
  trialsPerAddress: number
  /** The address of this gateway for the caller, without a slash at the end. */
  ownUrl: string
}

export interface VendorCall extends Request {
  audience: 'vendor'
  accountId: string
  /** The id of the API key or member, which is the actor of a change. */
  actorId: string
  scopes: readonly Scope[]
  /** Set for a key or member that is bound to one application. */
  onlyApplicationId: string | undefined
  /** Absent for an API key. */
  role: MemberRole | undefined
}

interface ActivationCall extends Request {
  audience: 'activation'
  /** The activation's token. */
  token: string
}

interface CustomerCall extends Request {
  audience: 'customer'
  session: FoundCustomerSession
}

interface ProductCall extends Request {
  audience: 'product'
}

interface ProcessorCall extends Request {
  audience: 'processor'
}

/** An admitted request with valid input, for the handler. Only a vendor's call has an account. */
export type Call = VendorCall | ProductCall | ActivationCall | CustomerCall | ProcessorCall

/** The answer of a handler. The default of `status` is the status of the route. */
export interface RouteAnswer<Body = unknown> {
  status?: number
  headers?: Record<string, string>
  body?: Body
  /** JSON text that is sent as it is; a stream is sent as fast as the caller reads it. */
  json?: string | Buffer | Readable
}

/** An entry of the route table. Admission, validation, the OpenAPI document and the tests use it. */
export interface Route {
  method: Method
  /** In the form of OpenAPI: `/v1/apps/{app_id}/plans`. */
  path: string
  operationId: string
  tag: string
  summary: string
  description?: string
  audience: Audience
  /** Any one of these scopes is enough. */
  scopes: readonly Scope[]
  /** The route is about more than one application, so a bound key or member is refused. */
  accountWide: boolean
  /** A person needs the role `owner`. */
  ownersOnly: boolean
  /** If absent, the route has no query parameters. */
  query?: z.ZodType
  /** If absent, the route needs no body; an empty body or `{}` is valid. */
  body?: z.ZodType
  /** An empty body is the same as `{}`. */
  bodyOptional: boolean
  rawBody: boolean
  bodyLimit: number
  /** A request without `Idempotency-Key` is refused. The service stores these keys itself, with its own rules. */
  needsIdempotencyKey: boolean
  status: number
  answer?: z.ZodType
  /** Other successful statuses, and when they are sent. */
  alsoAnswers: Readonly<Record<number, string>>
  answerHeaders: Readonly<Record<string, string>>
  /** Error codes in addition to those of every route of its kind. */
  errors: readonly ErrorCode[]
  /** Checks that the resource in the path exists and that the token belongs to it. Both are refused before an invalid body. */
  lookUp?(call: Call): Promise<unknown>
  /**
   * The licence key or legacy key that a call without an API key names, in the form in which it is compared. `not_found` means
   * that it is wrong, and counts against the caller.
   */
  guessableKey?(call: Call): string
  handle(call: Call): Promise<RouteAnswer>
}

type Params<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name | keyof Params<Rest>]: string }
  : unknown

type Output<S> = S extends z.ZodType ? z.output<S> : Record<string, never>

type TypedCall<For extends Audience, Path extends string, Query, Body> = Omit<
  Extract<Call, { audience: For }>,
  'params' | 'query' | 'body'
> & {
  params: Params<Path>
  query: Output<Query>
  body: Output<Body>
}

interface Spec<For extends Audience, Path extends string, Query, Body, Reply> {
  method: Method
  path: Path
  operationId: string
  tag: string
  summary: string
  description?: string
  query?: Query
  body?: Body
  bodyOptional?: boolean
  rawBody?: boolean
  bodyLimit?: number
  needsIdempotencyKey?: boolean
  /** Default: 200 with an answer, 204 without an answer. */
  status?: number
  answer?: Reply
  alsoAnswers?: Record<number, string>
  answerHeaders?: Record<string, string>
  errors?: readonly ErrorCode[]
  lookUp?: (call: TypedCall<For, Path, undefined, undefined>) => Promise<unknown>
  guessableKey?: (call: TypedCall<For, Path, undefined, Body>) => string
  handle: (
    call: TypedCall<For, Path, Query, Body>,
  ) => Promise<Reply extends z.ZodType ? RouteAnswer<z.output<Reply>> : RouteAnswer<never>>
}

/** How bodies of each audience are counted. */
export const senderKinds = {
  vendor: 'vendor',
  product: 'product',
  activation: 'product',
  customer: 'product',
  processor: 'processor',
} as const satisfies Record<Audience, SenderKind>

const nothing = z.strictObject({})

/** A route for the vendor's backend and people: an API key or a member with one of `scopes`. */
export function vendorRoute<
  Path extends string,
  Query extends z.ZodType | undefined = undefined,
  Body extends z.ZodType | undefined = undefined,
  Reply extends z.ZodType | undefined = undefined,
>(
  spec: Spec<'vendor', Path, Query, Body, Reply> & {
    scopes: readonly Scope[]
    accountWide?: boolean
    ownersOnly?: boolean
  },
): Route {
  return complete(spec, 'vendor', spec.scopes)
}

/** A route that is called without an API key. Its calls have no account. */
export function keylessRoute<
  For extends Exclude<Audience, 'vendor'>,
  Path extends string,
  Query extends z.ZodType | undefined = undefined,
  Body extends z.ZodType | undefined = undefined,
  Reply extends z.ZodType | undefined = undefined,
>(spec: Spec<For, Path, Query, Body, Reply> & { audience: For }): Route {
  return complete(spec, spec.audience, [])
}

function complete<For extends Audience, Path extends string, Query, Body, Reply>(
  spec: Spec<For, Path, Query, Body, Reply>,
  audience: For,
  scopes: readonly Scope[],
): Route {
  // The cast is safe: the handler's types follow from the schemas that parse its input and from the audience that is admitted.
  return {
    bodyOptional: spec.body === undefined,
    rawBody: false,
    bodyLimit: bodyLimits[senderKinds[audience]],
    needsIdempotencyKey: false,
    status: spec.answer === undefined ? 204 : 200,
    alsoAnswers: {},
    answerHeaders: {},
    errors: [],
    accountWide: false,
    ownersOnly: false,
    ...spec,
    audience,
    scopes,
  } as unknown as Route
}

/** The schema of a route's body: an empty object by default. */
export function bodySchema(route: Route): z.ZodType {
  return route.body ?? nothing
}

/** The schema of a route's query: no parameters by default. */
export function querySchema(route: Route): z.ZodType {
  return route.query ?? nothing
}

/** Whether a repetition with the same `Idempotency-Key` gets the answer of the first call (docs/guides/concepts.md, "Guarantees"). */
export function takesIdempotencyKey(route: Route): boolean {
  return route.audience === 'vendor' && route.method === 'POST'
}

/**
 * Whether pages of any origin may call a route. Installed products can run in browsers, and their routes use no cookies.
 * Routes with API keys are excluded, because API keys must not be used in browsers.
 */
export function isForBrowsers(route: Route | undefined): boolean {
  return route?.audience === 'product' || route?.audience === 'activation'
}

/** A vendor's call about an application, with other ids in its path. */
export type CallIn<Param extends string = never> = Pick<VendorCall, 'services' | 'accountId'> & {
  params: { readonly [Name in 'app_id' | Param]: string }
}

/** The account and application that a call is about. */
export function within(call: Pick<CallIn, 'accountId' | 'params'>) {
  return { accountId: call.accountId, applicationId: call.params.app_id }
}
