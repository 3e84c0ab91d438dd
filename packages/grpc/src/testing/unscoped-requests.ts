import type { DescField, DescMessage, DescService, Message } from '@bufbuild/protobuf'
import { ScalarType } from '@bufbuild/protobuf'
import { ServiceError } from '../errors.ts'

type Values = Record<string, unknown>

/** The answer to a request with an empty id: `ok` or the code of the error. */
export interface Unscoped {
  /** Such as `ListPlans without application_id`. */
  request: string
  answer: string
}

// Members of closed sets, so that a request has no other error than the missing id.
const known: Readonly<Record<string, string>> = { status: 'active', kind: 'feature' }

const ids: readonly string[] = ['account_id', 'application_id', 'only_application_id']

/** Calls every RPC of a service once for each account or application id in its request, with that id empty. */
export async function callWithoutIds(
  service: DescService,
  calls: Record<string, (request: never) => Promise<Message>>,
): Promise<Unscoped[]> {
  const answers: Unscoped[] = []
  for (const { name, localName, input } of service.methods) {
    for (const { path, request } of withoutIds(input)) {
      const answer = await answerTo(calls[localName]!(request as never))
      answers.push({ request: `${name} without ${path}`, answer })
    }
  }
  return answers
}

/** Calls every RPC of a service with all ids set, and returns the answers. */
export async function callWithIds(
  service: DescService,
  calls: Record<string, (request: never) => Promise<Message>>,
): Promise<Record<string, string>> {
  const answers: Record<string, string> = {}
  for (const { name, localName, input } of service.methods) {
    answers[name] = await answerTo(calls[localName]!(valuesOf(input) as never))
  }
  return answers
}

function answerTo(call: Promise<Message>): Promise<string> {
  return call.then(
    () => 'ok',
    (error: unknown) => (error instanceof ServiceError ? error.code : String(error)),
  )
}

function withoutIds(message: DescMessage): { path: string; request: Values }[] {
  return message.fields.flatMap((field) => {
    const complete = valuesOf(message)
    if (ids.includes(field.name)) {
      return [{ path: field.name, request: { ...complete, [field.localName]: '' } }]
    }
    if (field.message === undefined || isJson(field)) return []
    const inner = withoutIds(field.message).map(({ path, request }) => ({
      path: `${field.name}.${path}`,
      request: { ...complete, [field.localName]: field.fieldKind === 'list' ? [request] : request },
    }))
    const absent = { path: field.name, request: { ...complete, [field.localName]: undefined } }
    return inner.length > 0 && field.fieldKind === 'message' ? [absent, ...inner] : inner
  })
}

/** A field of any JSON, which has no account and no application. */
const isJson = (field: DescField) => field.message?.typeName === 'google.protobuf.Struct'

function valuesOf(message: DescMessage): Values {
  return Object.fromEntries(message.fields.map((field) => [field.localName, valueOf(field)]))
}

function valueOf(field: DescField): unknown {
  if (field.fieldKind === 'list') {
    if (field.listKind === 'enum') throw new Error(`no value is made up for ${field.toString()}`)
    return [field.listKind === 'message' ? valuesOf(field.message) : scalarOf(field.scalar, field.name)]
  }
  if (field.fieldKind === 'message') return isJson(field) ? {} : valuesOf(field.message)
  if (field.fieldKind === 'map') return {}
  if (field.fieldKind !== 'scalar') throw new Error(`no value is made up for ${field.toString()}`)
  return scalarOf(field.scalar, field.name)
}

function scalarOf(scalar: ScalarType, name: string): unknown {
  switch (scalar) {
    case ScalarType.STRING:
      return known[name] ?? 'x'
    case ScalarType.BYTES:
      return new Uint8Array(32)
    case ScalarType.BOOL:
      return false
    case ScalarType.INT32:
      return 1
    case ScalarType.INT64:
      return 1n
    default:
      throw new Error(`no value is made up for ${name}`)
  }
}
