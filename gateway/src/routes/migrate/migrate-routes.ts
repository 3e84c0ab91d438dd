import { ServiceError } from '@licensing/grpc/errors'
import { trimUnseen } from '@licensing/formats/licence-key'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { keylessRoute } from '../../route.ts'
import type { Route } from '../../route.ts'

const migrationSchema = z
  .strictObject({ licence_id: id('lic'), key: z.string().describe('The new licence key.') })
  .meta({ id: 'Migration' })

export const migrateRoutes: Route[] = [
  keylessRoute({
    method: 'POST',
    path: '/v1/apps/{app_id}/migrate',
    operationId: 'migrateLegacyKey',
    tag: 'Installed products',
    summary: 'Exchange a legacy key for its imported licence',
    description: 'Can be repeated, and works for every status of the licence.',
    audience: 'product',
    body: z.strictObject({
      legacy_key: z
        .string()
        .describe(
          'The key of the previous system. White space and invisible characters at its beginning and end are ignored.',
        ),
    }),
    answer: migrationSchema,
    guessableKey: ({ params, body }) => `${params.app_id} ${trimUnseen(body.legacy_key)}`,
    handle: async ({ services, params, body }) => {
      const legacyKey = trimUnseen(body.legacy_key)
      // A key with this problem cannot have been imported, so no service is called.
      if (problemOfText(legacyKey, textLimits.reference)) {
        throw new ServiceError('not_found', 'there is no such legacy key')
      }
      const { licenceId, key } = await services.products.migrateLegacyKey({
        applicationId: params.app_id,
        legacyKey,
      })
      return { body: { licence_id: licenceId, key } }
    },
  }),
]
