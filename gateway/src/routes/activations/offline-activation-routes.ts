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
    .describe('Validity of the file in days. It ends at `expires_on` of the licence if that is earlier.'),
})

const offlineActivationSchema = z
  .strictObject({
    activation_id: id('act'),
    licence_id: id('lic'),
    expires_at: timestampText.describe('When the file expires.'),
    file: z
      .string()
      .describe(
        'Licence file for `activateOffline` of the SDK: the token and the signed key sets that verify it, one per line.',
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
    summary: 'Create a licence file for a machine without a network',
    description:
      'The body is the result of `createOfflineRequest` of the SDK plus `days`. The file counts as an activation. A revocation does not reach the machine while it is offline. If the activation is freed, the file stays valid until it expires.',
    scopes: ['issue'],
    body: offlineActivationBody,
    status: 201,
    alsoAnswers: { 200: 'The fingerprint is already activated: a new file for the same activation.' },
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
