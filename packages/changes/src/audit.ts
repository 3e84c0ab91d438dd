import { create, getOption } from '@bufbuild/protobuf'
import type { DescField, DescMessage, Message, MessageInitShape } from '@bufbuild/protobuf'
import { TimestampSchema, timestampDate } from '@bufbuild/protobuf/wkt'
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
  const [from, to] = [before, after].map((init) => (init ? shownFields(schema, create(schema, init)) : []))
  const fields = new Map([...from!, ...to!].map((field) => [field.name, field]))
  const values = (of: ShownField[]) => new Map(of.map(({ name, value }) => [name, value]))
  const [was, is] = [values(from!), values(to!)]
  const changed = [...fields.values()]
    .map((field) => ({ ...field, from: was.get(field.name) ?? null, to: is.get(field.name) ?? null }))
    .filter((field) => !isDeepStrictEqual(field.from, field.to))
  if (changed.length === 0) return undefined
  return Object.fromEntries(
    changed
      .filter(({ name, isTime }) => name !== 'id' && !isTime)
      .map(({ name, isSecret, from, to }) => [name, isSecret ? secret : { from, to }]),
  )
}

const secret = { from: null, to: null }

/** The secrets that a message shows once, for a change that makes them. */
export function newSecrets(schema: DescMessage): Changes {
  return Object.fromEntries(schema.fields.filter(isSecret).map(({ name }) => [name, secret]))
}

/** The names of the fields that the audit log shows. */
export function auditedFields(schema: DescMessage): string[] {
  return schema.fields.filter((field) => !getOption(field, unaudited)).map(apiName)
}

interface ShownField {
  name: string
  value: unknown
  isTime: boolean
  isSecret: boolean
}

function shownFields(schema: DescMessage, message: Message, prefix = ''): ShownField[] {
  const values = message as unknown as Record<string, unknown>
  return schema.fields.flatMap((field): ShownField[] => {
    if (getOption(field, unaudited)) return []
    const name = `${prefix}${apiName(field)}`
    const value = values[field.localName]
    if (field.fieldKind === 'message' && !isTimeField(field)) {
      return value === undefined ? [] : shownFields(field.message, value as Message, `${name}.`)
    }
    return [{ name, value: jsonOf(field, value), isTime: isTimeField(field), isSecret: isSecret(field) }]
  })
}

const isTimeField = ({ message }: DescField) => message?.typeName === TimestampSchema.typeName
const isSecret = (field: DescField) => getOption(field, shown_once)

/** The contract names an application `application_id`, the API `app_id`. */
const apiName = ({ name }: DescField) => (name === 'application_id' ? 'app_id' : name)

function jsonOf(field: DescField, value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (!field.message || value === undefined) return value
  if (isTimeField(field)) return timestampDate(value as Timestamp).toISOString()
  return (value as Message[]).map((row) =>
    Object.fromEntries(shownFields(field.message!, row).map(({ name, value }) => [name, value])),
  )
}
