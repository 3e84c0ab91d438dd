import { create, getOption } from '@bufbuild/protobuf'
import type { DescField, DescMessage, Message, MessageInitShape } from '@bufbuild/protobuf'
import { StructSchema, TimestampSchema, timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Sql } from '@licensing/database/connect'
import { append, currentOrigin } from '@licensing/events/outbox'
import { operator, requestContext } from '@licensing/process/context'
import type { RequestCaller } from '@licensing/process/context'
import { unaudited } from '@licensing/proto/audit'
import { shown_once } from '@licensing/proto/idempotency'
import { isDeepStrictEqual } from 'node:util'

/** The fields that a change has changed, as the API shows them; `null` if the resource did not exist before or is gone. */
export type Changes = Record<string, { from: unknown; to: unknown }>

export interface NewAuditEntry {
  accountId: string
  /** Absent if the change concerns the account itself. */
  applicationId?: string | undefined
  resourceId: string
  /** Undefined if the call changes nothing: it is then not in the log. */
  changes: Changes | undefined
  /** Who makes the change, if it is not the caller of the current request. In the background there is no request. */
  by?: (RequestCaller & { inBackground?: boolean }) | undefined
}

/**
 * Appends an entry of the audit log, in the transaction of its change: both are committed, or neither. Catalog consumes and
 * lists it.
 *
 * @example
 * const changes = changesOf(PlanSchema, toPlan(before), toPlan(after))
 * await audit(tx, { accountId, applicationId, resourceId: after.id, changes })
 */
export async function audit(tx: Sql, ...entries: NewAuditEntry[]): Promise<void> {
  const caller = requestContext()?.caller ?? { actor: 'unknown', operation: 'unknown' }
  const events = entries.flatMap(({ accountId, applicationId = '', resourceId, changes, by = caller }) => {
    if (!changes) return []
    const { actor, operation, inBackground = actor === operator }: NonNullable<NewAuditEntry['by']> = by
    const value = { actor, operation, resourceId, changes: JSON.stringify(changes) }
    const origin = { ...currentOrigin(), ...(inBackground && { requestId: '' }) }
    return [{ accountId, applicationId, payload: { case: 'auditEntry' as const, value }, origin }]
  })
  await append(tx, ...events)
}

/**
 * The differences between a resource before and after a change, as the API names and shows its fields, without its id and
 * times. A secret is never shown: its field is `{from: null, to: null}`.
 *
 * @param before absent if the change creates the resource
 * @param after absent if the change deletes it
 * @returns undefined if nothing differs, times included
 */
export function changesOf<S extends DescMessage>(
  schema: S,
  before: MessageInitShape<S> | undefined,
  after: MessageInitShape<S> | undefined,
): Changes | undefined {
  const shown = (init: MessageInitShape<S> | undefined) =>
    init ? shownFields(schema, create(schema, init)) : new Map<string, ShownField>()
  const [was, is] = [shown(before), shown(after)]
  const changed = [...new Map([...was, ...is])].flatMap(([name, field]) => {
    const change = { from: was.get(name)?.value ?? null, to: is.get(name)?.value ?? null }
    return isDeepStrictEqual(change.from, change.to) ? [] : [{ name, field, change }]
  })
  if (changed.length === 0) return undefined
  return Object.fromEntries(
    changed
      .filter(({ name, field }) => name !== 'id' && !field.isTime)
      .map(({ name, field, change }) => [name, field.isSecret ? secret : change]),
  )
}

const secret = { from: null, to: null }

/** The secrets that a message shows once, for a change that makes them. */
export function newSecrets(schema: DescMessage): Changes {
  return Object.fromEntries(schema.fields.filter(isSecretField).map(({ name }) => [name, secret]))
}

interface ShownField {
  value: unknown
  isTime: boolean
  isSecret: boolean
}

function shownFields(schema: DescMessage, message: Message): Map<string, ShownField> {
  const values = message as unknown as Record<string, unknown>
  const fields = schema.fields.flatMap((field): [string, ShownField][] => {
    if (getOption(field, unaudited)) return []
    const value = values[field.localName]
    const [isTime, isSecret] = [isTimeField(field), isSecretField(field)]
    if (field.fieldKind !== 'message' || isTime || isStruct(field))
      return [[apiName(field), { value: jsonOf(field, value), isTime, isSecret }]]
    const part = value === undefined ? [] : [...shownFields(field.message, value as Message)]
    return part.map(([name, of]) => [`${apiName(field)}.${name}`, of])
  })
  return new Map(fields)
}

const isTimeField = ({ message }: DescField) => message?.typeName === TimestampSchema.typeName
const isStruct = ({ message }: DescField) => message?.typeName === StructSchema.typeName
const isSecretField = (field: DescField) => getOption(field, shown_once)

/** The contract names an application `application_id`, the API `app_id`. */
const apiName = ({ name }: DescField) => (name === 'application_id' ? 'app_id' : name)

function jsonOf(field: DescField, value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (!field.message || value === undefined || isStruct(field)) return value
  if (isTimeField(field)) return timestampDate(value as Timestamp).toISOString()
  const { message } = field
  return (value as Message[]).map((row) =>
    Object.fromEntries([...shownFields(message, row)].map(([name, shown]) => [name, shown.value])),
  )
}
