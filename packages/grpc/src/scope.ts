import { getOption } from '@bufbuild/protobuf'
import type { DescField, DescMessage, DescMethod, MessageShape } from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'
import { no_account } from '@licensing/proto/scope'

/** Fields that name the account or application of a call. If such a field is `optional`, it may be absent but not empty. */
const scopeFields: ReadonlySet<string> = new Set(['account_id', 'application_id', 'only_application_id'])

/** The scope fields of a message and of its nested messages. */
interface Scope {
  own: DescField[]
  inner: { field: DescField; scope: Scope }[]
}

type Values = Record<string, unknown>

/**
 * Creates a check of a method's requests from its contract (proto/rpc/v1/scope.proto).
 *
 * @returns a function that returns the path of a scope field that is empty in a request, such as `plans.account_id`
 * @throws Error if a request of the method names no account and the contract does not say why
 */
export function missingScope(method: DescMethod): (request: MessageShape<DescMessage>) => string | undefined {
  const scope = scopeOf(method.input)
  const reason = getOption(method, no_account)
  if (namesAccount(scope) === (reason !== '')) {
    throw new Error(
      reason === ''
        ? `${method.toString()} has no account_id: name it in the request, or say why with the option no_account`
        : `${method.toString()} has an account_id and the option no_account: one of them is wrong`,
    )
  }
  return (request) => missingIn(scope, request)[0]
}

/** The values of the scope fields of a method's request itself. A batch has them in nested messages. */
export function scopeIds(method: DescMethod): (request: MessageShape<DescMessage>) => string[] {
  const names = method.input.fields.filter(isScopeField).map(({ localName }) => localName)
  return (request) => names.map((name) => (request as unknown as Values)[name] as string)
}

function scopeOf(message: DescMessage, outer: readonly DescMessage[] = []): Scope {
  if (outer.includes(message)) return { own: [], inner: [] }
  const inner = message.fields.flatMap((field) => {
    if (field.message === undefined) return []
    const scope = scopeOf(field.message, [...outer, message])
    return scope.own.length + scope.inner.length > 0 ? [{ field, scope }] : []
  })
  return { own: message.fields.filter(isScopeField), inner }
}

function isScopeField(field: DescField): boolean {
  return field.fieldKind === 'scalar' && scopeFields.has(field.name)
}

function isRequired(field: DescField): boolean {
  return field.presence === FeatureSet_FieldPresence.IMPLICIT
}

function namesAccount({ own, inner }: Scope): boolean {
  return (
    own.some((field) => field.name === 'account_id' && isRequired(field)) ||
    inner.some(({ scope }) => namesAccount(scope))
  )
}

/** The paths of the scope fields that are empty in a message. */
function missingIn({ own, inner }: Scope, values: Values): string[] {
  const missing = own
    .filter((field) => {
      const value = values[field.localName]
      return value === '' || (value === undefined && isRequired(field))
    })
    .map((field) => field.name)
  for (const { field, scope } of inner) {
    const value = values[field.localName]
    const messages = field.fieldKind === 'list' ? (value as Values[]) : [value as Values | undefined]
    for (const message of messages) {
      if (message === undefined) missing.push(field.name)
      else missing.push(...missingIn(scope, message).map((path) => `${field.name}.${path}`))
    }
  }
  return missing
}
