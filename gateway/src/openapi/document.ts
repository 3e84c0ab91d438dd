import { errorCatalogue } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import { textLimits } from '@licensing/proto/text'
import { pathIds } from '../fields/id.ts'
import { lengths } from '../fields/text.ts'
import { bodySchema, takesIdempotencyKey } from '../route.ts'
import type { Route } from '../route.ts'
import { answerExample } from './answer-examples.ts'
import { requestExamples } from './examples.ts'
import { errorsOf } from './route-errors.ts'
import { SchemaBook } from './schema-book.ts'
import type { JsonSchema } from './schema-book.ts'
import { describeProperties, meaningOf } from './vocabulary.ts'
import { webhookOperations } from './webhooks.ts'

export interface OpenApiDocument {
  openapi: string
  info: object
  servers: object[]
  tags: { name: string }[]
  paths: Record<string, Record<string, Operation>>
  /** The request that the vendor's endpoint receives, by type of event. */
  webhooks: Record<string, { post: object }>
  components: {
    schemas: Record<string, JsonSchema>
    securitySchemes: object
    responses: object
    headers: object
  }
}

interface Operation {
  operationId: string
  responses: Record<string, object>
  [member: string]: unknown
}

const description = `
Licensing for software vendors: entitlement definitions, plans, licences, payments, signed webhooks, and tokens that
installed products verify offline.

**Authentication**: send \`Authorization: Bearer <API key>\`.

**Requests**: bodies are JSON, not compressed. An unknown field or query parameter is refused. A body has at most 1 MiB (an import:
2 MiB; calls of products: 16 KiB; events of the processor: 256 KiB), and a request has 30 seconds to arrive. If more bodies arrive at
a time than the service can hold, further ones get 503 \`unavailable\` with \`Retry-After\`.

**Errors**: \`application/problem+json\` (RFC 9457). \`GET /errors/{code}\` explains each code.

**Pagination**: lists take \`limit\` and \`cursor\`, and return \`data\`, newest first, and \`next_cursor\`. A page can be short or
empty: continue until \`next_cursor\` is null.

**Retries**: send an \`Idempotency-Key\` with a POST. If the response is lost, retry with the same key: the retry has no second
effect. Answers are kept for 24 hours. If those of an account take more than its quota, a new key is refused with \`quota_exceeded\`, and nothing is done.
`.trim()

/** The OpenAPI 3.1 document of the route table, made from the schemas that validate requests. */
export function openApiDocument(routes: readonly Route[], publicUrl?: string): OpenApiDocument {
  const book = new SchemaBook()
  const paths: OpenApiDocument['paths'] = {}
  for (const route of routes) {
    const operations = (paths[route.path] ??= {})
    operations[route.method.toLowerCase()] = operation(route, book)
  }
  const schemas: Record<string, JsonSchema> = { ...book.schemas, Problem: problemSchema }
  for (const [name, schema] of Object.entries(schemas)) describeProperties(name, schema)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Licensing API',
      version: '1',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      description,
    },
    servers: [{ url: publicUrl ?? '/', description: 'This licensing service' }],
    tags: [...new Set([...routes.map(({ tag }) => tag), 'Webhook events'])].map((name) => ({ name })),
    paths,
    webhooks: webhookOperations(),
    components: {
      schemas,
      securitySchemes,
      responses: Object.fromEntries(
        (Object.keys(errorCatalogue) as ErrorCode[]).map((code) => [code, problemResponse(code)]),
      ),
      headers: commonHeaders,
    },
  }
}

function operation(route: Route, book: SchemaBook): Operation {
  const parameters = [...pathParameters(route), ...headerParameters(route), ...queryParameters(route, book)]
  const body = requestBody(route, book)
  const described = {
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: body }),
    responses: responses(route, book),
  }
  describeProperties(route.operationId, described)
  return {
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    ...(describe(route) && { description: describe(route) }),
    security: securityOf(route),
    ...(route.scopes.length > 0 && { 'x-scopes': route.scopes }),
    ...described,
  }
}

function describe(route: Route): string {
  const scopes = route.scopes.map((scope) => `\`${scope}\``).join(' or ')
  return [route.description, scopes && `Scope: ${scopes}.`].filter(Boolean).join('\n\n')
}

function securityOf(route: Route): object[] {
  if (route.audience === 'vendor') return [{ apiKey: [] }]
  if (route.audience === 'activation') return [{ activationToken: [] }]
  if (route.audience === 'customer') return [{ customerSession: [] }]
  return []
}

const pathExamples: Readonly<Record<string, string>> = { sale_id: 'order-2026-0042' }

function pathParameters(route: Route): object[] {
  return [...route.path.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => {
    const known = pathIds[name]
    const schema = known
      ? { type: 'string', examples: [`${known.prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`] }
      : { type: 'string', examples: [pathExamples[name] ?? 'export_pdf'] }
    return { name, in: 'path', required: true, description: meaningOf(route.operationId, name), schema }
  })
}

function headerParameters(route: Route): object[] {
  if (!takesIdempotencyKey(route)) return []
  const schema = { type: 'string', ...lengths(textLimits.reference) }
  const description = route.needsIdempotencyKey
    ? 'A unique key for this request. Send the same key when you retry.'
    : 'A unique key for this request. Send the same key when you retry: for 24 hours, the same request returns the first response and has no second effect.'
  return [{ name: 'Idempotency-Key', in: 'header', required: route.needsIdempotencyKey, description, schema }]
}

function queryParameters(route: Route, book: SchemaBook): object[] {
  if (!route.query) return []
  const { properties = {}, required = [] } = book.input(route.query)
  return Object.entries(properties).map(([name, { description: meaning, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    description: meaning ?? meaningOf(route.operationId, name),
    // `name[member]=value` for each member.
    ...(schema['type'] === 'object' && { style: 'deepObject', explode: true }),
    schema,
  }))
}

function requestBody(route: Route, book: SchemaBook): object | undefined {
  if (route.rawBody) {
    return { required: true, content: { 'application/json': { schema: { type: 'object' } } } }
  }
  if (!route.body) return undefined
  const example = requestExamples[route.operationId]
  return {
    required: !route.bodyOptional,
    content: {
      'application/json': {
        schema: book.input(bodySchema(route)),
        ...(example !== undefined && { example }),
      },
    },
  }
}

function responses(route: Route, book: SchemaBook): Record<string, object> {
  const schema = route.answer && book.output(route.answer)
  const content = schema && {
    'application/json': { schema, example: answerExample(route.operationId, schema, book) },
  }
  const headers = {
    ...Object.fromEntries(
      Object.keys(commonHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    ),
    ...Object.fromEntries(
      Object.entries(answerHeaders(route)).map(([name, meaning]) => [
        name,
        { description: meaning, schema: { type: 'string' } },
      ]),
    ),
  }
  const done: Record<string, object> = {
    [route.status]: { description: statusText(route.status), headers, ...(content && { content }) },
  }
  for (const [status, meaning] of Object.entries(route.alsoAnswers)) {
    done[status] = { description: meaning, headers, ...(content && Number(status) < 300 && { content }) }
  }
  for (const code of errorsOf(route)) {
    const status = errorCatalogue[code].http
    done[status] = done[status] ? anyProblem(done[status], code) : { $ref: `#/components/responses/${code}` }
  }
  return done
}

function answerHeaders(route: Route): Readonly<Record<string, string>> {
  if (!takesIdempotencyKey(route) || route.needsIdempotencyKey) return route.answerHeaders
  return {
    ...route.answerHeaders,
    'Idempotent-Replayed':
      '`true` if an earlier request with this `Idempotency-Key` made the change. Keys and secrets that are shown only once are `null` then.',
  }
}

/** The response for a status with several codes. It names all of them. */
function anyProblem(before: object, code: ErrorCode): object {
  const names =
    '$ref' in before
      ? [String(before.$ref).split('/').at(-1)!]
      : (before as { 'x-codes': string[] })['x-codes']
  const codes = [...names, code]
  const meanings = codes.map((each) => `\`${each}\`: ${errorCatalogue[each as ErrorCode].meaning}`)
  return { description: meanings.join('\n\n'), 'x-codes': codes, content: problemContent }
}

function statusText(status: number): string {
  return status === 201 ? 'Created' : status === 202 ? 'Accepted' : status === 204 ? 'Done' : 'OK'
}

const problemContent = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }

function problemResponse(code: ErrorCode): object {
  const { meaning, remedy } = errorCatalogue[code]
  return { description: `\`${code}\`: ${meaning} ${remedy}`, content: problemContent }
}

const problemSchema: JsonSchema = {
  type: 'object',
  description: 'RFC 9457',
  required: ['type', 'title', 'status', 'code', 'detail', 'request_id'],
  properties: {
    type: {
      type: 'string',
      description: 'Path of a page that explains the error.',
      examples: ['/errors/conflict'],
    },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', enum: Object.keys(errorCatalogue) },
    detail: { type: 'string' },
    request_id: { type: 'string' },
    limit: { type: 'integer', description: 'For `quota_exceeded`: the quota.' },
    current: { type: 'string', description: 'For `conflict`: the current status.' },
    allowed: {
      type: 'array',
      items: { type: 'string' },
      description: 'For `conflict`: the verbs that are possible now.',
    },
    reason: {
      type: 'string',
      description:
        'For `licence_refused`: why. For `limit_reached`: the restriction that is used up, `max_activations` or `max_concurrent`.',
    },
    errors: {
      type: 'array',
      description: 'For `validation_failed`: each invalid field.',
      items: {
        type: 'object',
        required: ['pointer', 'message'],
        properties: { pointer: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
}

const securitySchemes = {
  apiKey: { type: 'http', scheme: 'bearer', description: 'An API key, `lsk_…`.' },
  activationToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The activation’s latest token.',
  },
  customerSession: {
    type: 'http',
    scheme: 'bearer',
    description: 'The token of a customer session, `cst_…`: what follows `#` in the customer’s link.',
  },
}

const commonHeaders = {
  'X-Request-Id': {
    description: 'The id that the caller sent, if valid, or a new one.',
    schema: { type: 'string' },
  },
  RateLimit: { description: 'Remaining requests in the current window.', schema: { type: 'string' } },
  'RateLimit-Policy': { description: 'The limit and its window.', schema: { type: 'string' } },
}
