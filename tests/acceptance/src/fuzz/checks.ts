import { z } from 'zod'
import type { ApiDocument, DocumentedOperation, Operation, Schema } from '../document.ts'
import type { FuzzRequest } from './requests.ts'
import type { FuzzAnswer } from './wire.ts'

// Long enough that only a stuck request exceeds it, not a slow machine.
const slowMs = 20_000
const maxHeadBytes = 15_000

// Internal details that a defect could reveal: a stack trace, SQL, a driver's message, an address behind the gateway.
const inside =
  /\n\s+at |node_modules|\.ts:\d+|\.js:\d+|\b(?:select|insert into|update|delete from)\b.+\b(?:from|values|set|where)\b|ECONN|postgres|protobuf|grpc|\bnats\b|invalid byte|undefined|\[object|127\.0\.0\.1:\d+|localhost:\d+/i

/** Finds the problems of an answer, by the OpenAPI document and decisions.md, section 1. */
export class Judge {
  readonly #document: ApiDocument
  readonly #schemas = new Map<string, z.ZodType>()

  constructor(document: ApiDocument) {
    this.#document = document
  }

  problemsOf(request: FuzzRequest, answer: FuzzAnswer): string[] {
    return [
      ...this.#status(request, answer),
      ...this.#requestId(request, answer),
      ...(answer.status >= 400 ? problemBody(request, answer) : this.#success(request, answer)),
      ...(answer.ms > slowMs ? [`took ${Math.round(answer.ms)} ms`] : []),
    ]
  }

  #status({ operation, method }: FuzzRequest, { status }: FuzzAnswer): string[] {
    if (status >= 500) return [`is a ${status}`]
    const documented =
      method === 'HEAD' ? this.#at(operation, 'get') : this.#at(operation, method.toLowerCase())
    if (documented)
      return documented.responses[status] ? [] : [`has the status ${status}, which is not documented`]
    const fits = method === 'OPTIONS' ? [204, 400, 404] : [400, 404, 405]
    return fits.includes(status) ? [] : [`has the status ${status} to ${method}, which is not known there`]
  }

  /** The operation of the path, or of a path with a parameter that matches it too: /v1/api-keys/self matches /v1/api-keys/{key_id}. */
  #at({ path }: Operation, method: string): DocumentedOperation | undefined {
    const { paths } = this.#document
    const others = Object.keys(paths).filter((other) => isCaseOf(path, other))
    return [path, ...others].map((each) => paths[each]?.[method]).find((found) => found !== undefined)
  }

  #requestId(request: FuzzRequest, { headers }: FuzzAnswer): string[] {
    const id = headers['x-request-id']
    const own = hasReadableHead(request) ? (request.headers['x-request-id'] ?? '') : ''
    if (typeof id !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(id)) return ['has no X-Request-Id']
    return /^[\x21-\x7e]{1,128}$/.test(own) && id !== own
      ? ['does not have the X-Request-Id that was sent']
      : []
  }

  #success(request: FuzzRequest, { status, headers, body }: FuzzAnswer): string[] {
    const { operation, method } = request
    if (method === 'HEAD' || status === 204 || status === 304) return body === '' ? [] : ['has a body']
    const response = this.#at(operation, method.toLowerCase())?.responses[status]
    const schema = response?.content?.['application/json']?.schema
    if (!schema) return body === '' ? [] : ['has a body that is not documented']
    if (!/^application\/json\b/.test(headers['content-type'] ?? '')) return ['is no application/json']
    const parsed = parse(body)
    if (parsed === undefined) return ['is not JSON']
    const result = this.#zod(`${method} ${operation.path} ${status}`, schema).safeParse(parsed)
    return result.success ? [] : [`does not fit its schema: ${z.prettifyError(result.error).slice(0, 300)}`]
  }

  #zod(name: string, schema: Schema): z.ZodType {
    const known = this.#schemas.get(name)
    if (known) return known
    const text = JSON.stringify({ ...schema, $defs: this.#document.components.schemas })
    const local = JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')) as Parameters<
      typeof z.fromJSONSchema
    >[0]
    const made = z.fromJSONSchema(local)
    this.#schemas.set(name, made)
    return made
  }
}

/** If the head of a request is too large, the gateway does not read it, and so does not know its request id. */
function hasReadableHead({ target, headers }: FuzzRequest): boolean {
  return target.length + JSON.stringify(headers).length < maxHeadBytes
}

const problemSchema = z.looseObject({
  type: z.string(),
  title: z.string().min(1),
  status: z.int(),
  code: z.string(),
  detail: z.string().min(1),
  request_id: z.string(),
  errors: z
    .array(z.strictObject({ pointer: z.string().regex(/^(?:\/.*)?$/s), message: z.string().min(1) }))
    .optional(),
})

function problemBody({ method }: FuzzRequest, { status, headers, body }: FuzzAnswer): string[] {
  if (!/^application\/problem\+json\b/.test(headers['content-type'] ?? '')) return ['is no problem document']
  if (method === 'HEAD') return []
  const result = problemSchema.safeParse(parse(body))
  if (!result.success) return [`is no problem document: ${z.prettifyError(result.error).slice(0, 300)}`]
  const { data } = result
  return [
    ...(data.status === status ? [] : ['has another status in its body']),
    ...(data.type === `/errors/${data.code}` ? [] : ['has a type that is not its code']),
    ...(data.request_id === headers['x-request-id'] ? [] : ['has another request_id than X-Request-Id']),
    ...((data.code === 'validation_failed') === (data.errors !== undefined)
      ? []
      : ['has errors or lacks them']),
    ...(data.errors?.length === 0 ? ['names no field'] : []),
    ...(status === 401 && headers['www-authenticate'] !== 'Bearer' ? ['has no WWW-Authenticate'] : []),
    ...(status === 405 && headers['allow'] === undefined ? ['has no Allow'] : []),
    ...(inside.test(data.detail) ? [`lets something out: ${data.detail.slice(0, 200)}`] : []),
  ]
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function isCaseOf(path: string, template: string): boolean {
  const [parts, wanted] = [path.split('/'), template.split('/')]
  return (
    parts.length === wanted.length &&
    parts.every(
      (part, index) => part === wanted[index] || (wanted[index]!.startsWith('{') && !part.startsWith('{')),
    )
  )
}
