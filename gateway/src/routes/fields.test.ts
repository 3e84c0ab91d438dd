import type { DescMessage } from '@bufbuild/protobuf'
import {
  ApiKeySchema,
  ApplicationSchema,
  EntitlementDefinitionSchema,
  PlanSchema,
} from '@licensing/proto/catalog'
import { LicenceSchema } from '@licensing/proto/licensing'
import { DeliverySchema, EndpointSchema } from '@licensing/proto/notifier'
import { expect, test } from 'vitest'
import { apiKeySchema } from './api-keys/api-key-routes.ts'
import { appSchema } from './apps/app-routes.ts'
import { entitlementDefSchema } from './entitlement-defs/entitlement-def-routes.ts'
import { licenceSchema } from './licences/licence-json.ts'
import { planSchema } from './plans/plan-json.ts'
import { deliverySchema } from './webhook-deliveries/webhook-delivery-routes.ts'
import { webhookEndpointSchema } from './webhook-endpoints/webhook-endpoint-json.ts'

/** Messages, what REST shows of them, fields with another name there, and those that it does not show, with the reason. */
const resources: [
  DescMessage,
  { shape: object },
  { renamed?: Record<string, string>; hidden?: Record<string, string> },
][] = [
  [ApplicationSchema, appSchema, {}],
  [ApiKeySchema, apiKeySchema, { renamed: { application_id: 'app_id' } }],
  [
    EntitlementDefinitionSchema,
    entitlementDefSchema,
    { hidden: { application_id: 'it is in the path', created_at: 'the interface names none' } },
  ],
  [PlanSchema, planSchema, { hidden: { application_id: 'it is in the path' } }],
  [LicenceSchema, licenceSchema, {}],
  [EndpointSchema, webhookEndpointSchema, {}],
  [DeliverySchema, deliverySchema, {}],
]

test.each(resources.map(([message, ...rest]) => [message.name, message, ...rest] as const))(
  'REST shows every field of %s, or there is a reason why not',
  (_name, message, { shape }, { renamed = {}, hidden = {} }) => {
    const fields = message.fields.map((field) => renamed[field.name] ?? field.name)
    expect([...Object.keys(shape), ...Object.keys(hidden)].toSorted()).toEqual(fields.toSorted())
  },
)
