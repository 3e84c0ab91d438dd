import { ServiceError } from '@licensing/grpc/errors'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { activateBody, couldBeLicenceKey } from './activation-json.ts'

const mostDays = 366

const offlineActivationBody = activateBody.extend({
  days: z
    .int()
    .min(1)
    .max(mostDays)
    .describe('How long the file is good; never past the licence’s `expires_on`.'),
})

const offlineActivationSchema = z
  .strictObject({
    activation_id: id('act'),
    licence_id: id('lic'),
    expires_at: timestampText.describe('When the file ends.'),
    file: z
      .string()
      .describe(
        'Text for `activateOffline` of the SDK: the token, and each signed key set that verifies it, a line each.',
      )
      .meta({ examples: ['-----BEGIN LICENCE-----\neyJ…\neyJ…\n-----END LICENCE-----\n'] }),
  })
  .meta({ id: 'OfflineActivation' })

export const offlineActivationRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: '/v1/apps/{app_id}/offline-activations',
    operationId: 'activateOffline',
    tag: 'Installed products',
    summary: 'Activate a machine without a network',
    description:
      'The body is what `createOfflineRequest` of the SDK gives, and `days`. It takes a place as any activation does. A revocation does not reach the machine while it is offline; freeing the activation frees the place, not the file.',
    scopes: ['issue'],
    body: offlineActivationBody,
    status: 201,
    alsoAnswers: { 200: 'The same fingerprint again: another file for the same activation.' },
    answer: offlineActivationSchema,
    errors: ['not_found', 'licence_refused', 'limit_reached', 'quota_exceeded'],
    handle: async (call) => {
      const { licence_key: licenceKey, product_version: productVersion, ...body } = call.body
      if (!couldBeLicenceKey(licenceKey)) throw new ServiceError('not_found', 'there is no such licence key')
      const { activationId, licenceId, expiresAt, file, created } =
        await call.services.products.activateOffline({
          ...within(call),
          ...body,
          licenceKey,
          productVersion,
        })
      const expires_at = isoText(expiresAt)
      return {
        status: created ? 201 : 200,
        body: { activation_id: activationId, licence_id: licenceId, expires_at, file },
      }
    },
  }),
]
