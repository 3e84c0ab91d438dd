import type { DescMessage } from '@bufbuild/protobuf'
import {
  ApiKeySchema,
  ApplicationSchema,
  EntitlementDefinitionSchema,
  PlanSchema,
} from '@licensing/proto/catalog'
import { PriceSchema } from '@licensing/proto/billing'
import {
  ActivationSchema,
  LicenceDetailSchema,
  LicenceSchema,
  OverrideSchema,
  RestrictionsSchema,
} from '@licensing/proto/licensing'
import { DeliverySchema, EndpointSchema } from '@licensing/proto/notifier'
import { ActivateOfflineResponseSchema, TokenGrantSchema } from '@licensing/proto/products'
import { expect, test } from 'vitest'
import { grantSchema, offlineActivationSchema } from './activations/activation-routes.ts'
import { apiKeySchema } from './api-keys/api-key-routes.ts'
import { appSchema } from './apps/app-routes.ts'
import { entitlementDefSchema } from './entitlement-defs/entitlement-def-routes.ts'
import { detailProperties, overrideSchema, vendorActivationSchema } from './licences/licence-detail-json.ts'
import { restrictionsSchema } from './licences/licence-fields.ts'
import { licenceSchema } from './licences/licence-json.ts'
import { planSchema } from './plans/plan-json.ts'
import { priceSchema } from './prices/price-routes.ts'
import { deliverySchema } from './webhook-deliveries/webhook-delivery-routes.ts'
import { webhookEndpointSchema } from './webhook-endpoints/webhook-endpoint-json.ts'

/** Messages with their REST schemas, the fields that have another name in REST, and the reasons for fields that it hides. */
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
  [PriceSchema, priceSchema, {}],
  [LicenceSchema, licenceSchema, {}],
  [RestrictionsSchema, restrictionsSchema, {}],
  [LicenceDetailSchema, { shape: detailProperties }, { hidden: { licence: 'its fields are shown' } }],
  [OverrideSchema, overrideSchema, {}],
  [ActivationSchema, vendorActivationSchema, {}],
  [TokenGrantSchema, grantSchema, {}],
  [ActivateOfflineResponseSchema, offlineActivationSchema, { hidden: { created: 'the status shows it' } }],
  [EndpointSchema, webhookEndpointSchema, {}],
  [DeliverySchema, deliverySchema, {}],
]

test.each(resources.map(([message, ...rest]) => [message.name, message, ...rest] as const))(
  'REST has every field of %s, except those with a reason',
  (_name, message, { shape }, { renamed = {}, hidden = {} }) => {
    const fields = message.fields.map((field) => renamed[field.name] ?? field.name)
    expect([...Object.keys(shape), ...Object.keys(hidden)].toSorted()).toEqual(fields.toSorted())
  },
)
