import { closedSets } from '@licensing/proto/closed-sets'
import { webhookEventTypes, webhookFields, webhookOccasions } from '@licensing/proto/webhook-events'
import type { WebhookFieldKind } from '@licensing/proto/webhook-events'
import type { JsonSchema } from './schema-book.ts'
import { describeProperties } from './vocabulary.ts'

/** Pattern of `api_version`, which is the date of the event schema. */
export const apiVersionPattern = String.raw`^\d{4}-\d{2}-\d{2}$`

type Fields = Readonly<Record<string, WebhookFieldKind>>

/** `webhooks` of the OpenAPI document: the delivery of each type of event, generated from events.proto. */
export function webhookOperations(): Record<string, { post: object }> {
  return Object.fromEntries(webhookEventTypes.map((type) => [type, { post: operation(type) }]))
}

function operation(type: string): object {
  const schema = envelopeSchema(type)
  describeProperties('Event', schema)
  return {
    operationId: type,
    tags: ['Webhook events'],
    summary: type,
    description: webhookOccasions[type],
    security: [],
    parameters: deliveryHeaders,
    requestBody: {
      required: true,
      content: { 'application/json': { schema, example: exampleEvent(type) } },
    },
    responses: {
      '2XX': {
        description: 'Acknowledges the delivery. Any other answer, or none within 5 seconds, is retried.',
      },
    },
  }
}

function envelopeSchema(type: string): JsonSchema {
  const { previous, ...object } = webhookFields[type] as Fields
  const properties: Record<string, JsonSchema> = {
    id: {
      type: 'string',
      description: 'Id of the event, the same in every attempt. Handle each id once.',
    },
    type: { type: 'string', const: type },
    api_version: { type: 'string', pattern: apiVersionPattern },
    created_at: { type: 'string', format: 'date-time' },
    sequence: { type: 'integer', description: 'Number of the event in the account, without gaps.' },
    account_id: { type: 'string' },
    application_id: { type: 'string' },
    data: { type: 'object', required: ['object'], properties: { object: objectSchema(object) } },
    // Generators of clients have no type for null alone.
    previous: {
      ...objectSchema({ plan_id: 'string' }),
      type: previous === undefined ? ['object', 'null'] : 'object',
    },
  }
  return { type: 'object', required: Object.keys(properties), properties }
}

function objectSchema(fields: Fields): JsonSchema {
  const required = Object.keys(fields).filter((name) => !fields[name]!.endsWith('?'))
  const properties = Object.fromEntries(
    Object.entries(fields).map(([name, kind]): [string, JsonSchema] => [name, fieldSchema(name, kind)]),
  )
  return { type: 'object', required, properties }
}

function fieldSchema(name: string, kind: WebhookFieldKind): JsonSchema {
  const type = kind.replace('?', '')
  const { values, description } = eventFields[`${name}${kind.endsWith('?') ? '?' : ''}`] ?? {}
  return {
    type: type === 'number' ? 'integer' : type,
    ...(values && { enum: values }),
    ...(description !== undefined && { description }),
  }
}

/** The description of a field of an event. */
export function fieldMeaning(name: string, kind: WebhookFieldKind): string {
  const schema = objectSchema({ [name]: kind })
  describeProperties('Event', schema)
  return schema.properties?.[name]?.description ?? ''
}

/** Descriptions of event fields that need more than their name. A question mark means that the field may be absent. */
const eventFields: Readonly<Record<string, { values?: readonly string[]; description?: string }>> = {
  status: { values: closedSets.licenceStatus, description: 'The licence’s status at the time of the event.' },
  lane: { values: closedSets.refundKind },
  'reason?': { values: closedSets.suspensionReason, description: 'The reason, if known.' },
  reason: { description: 'Error code: why no licence could be provisioned.' },
  session_id: { description: 'The checkout session, or the sale of another shop.' },
  cap_minor: { description: 'The cap, in minor units.' },
  ping: { description: 'Always true.' },
  expires_on: { description: 'When the licence expires.' },
}

const exampleFields: Readonly<Record<string, unknown>> = {
  licence_id: 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab',
  plan_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ac',
  status: 'active',
  reason: 'plan_archived',
  amount: 4900,
  currency: 'eur',
  session_id: 'cs_01k9zj3v8qe5ktw2m4x6r7n8ad',
  charge_ref: 'ch_3SExample',
  lane: 'full_refund',
  period: '2026-11',
  cap_minor: 50_000,
  spent_minor: 50_049,
  ping: true,
  expires_on: '2026-12-06T12:00:00.000Z',
}

/** An example of an event of a type. */
export function exampleEvent(type: string): Readonly<Record<string, unknown>> {
  const { previous, ...fields } = webhookFields[type] as Fields
  const status = type.replace('licence.', '')
  const object = Object.fromEntries(
    Object.keys(fields).map((name) => {
      const isStatus = name === 'status' && (closedSets.licenceStatus as readonly string[]).includes(status)
      return [name, isStatus ? status : exampleFields[name]]
    }),
  )
  return {
    id: 'evt_01k9zj3v8qe5ktw2m4x6r7n8ae',
    type,
    api_version: '2026-11-01',
    created_at: '2026-11-22T12:00:00.000Z',
    sequence: 41,
    account_id: 'acct_01k9zj3v8qe5ktw2m4x6r7n8af',
    application_id: 'app_01k9zj3v8qe5ktw2m4x6r7n8ag',
    data: { object },
    previous: previous === undefined ? null : { plan_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ah' },
  }
}

const header = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string', examples: [example] },
})

const deliveryHeaders = [
  header(
    'Webhook-Signature',
    '`t=<unix seconds>,v1=<hex>`: `v1` is HMAC-SHA256 over `<t>.<raw body>`, keyed with the endpoint’s secret.',
    't=1795348800,v1=5f2b…',
  ),
  header('Webhook-Id', 'The event’s id.', 'evt_01k9zj3v8qe5ktw2m4x6r7n8ae'),
  header('Webhook-Attempt', 'Number of the attempt, starting at 1.', '1'),
]
