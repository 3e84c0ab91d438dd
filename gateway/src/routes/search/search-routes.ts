import { trimUnseen } from '@licensing/formats/licence-key'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { lengths } from '../../fields/text.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { licenceJson, licenceSchema } from '../licences/licence-json.ts'

const q = z
  .string()
  .meta({ ...lengths(textLimits.search), examples: ['acme'] })
  .describe('White space and invisible characters at the beginning and the end are ignored.')
  .transform((text, context) => {
    const trimmed = trimUnseen(text)
    const problem = problemOfText(trimmed, textLimits.search)
    if (problem === undefined) return trimmed
    context.addIssue({ code: 'custom', message: problem })
    return z.NEVER
  })

export const searchRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/search',
    operationId: 'searchLicences',
    tag: 'Licences',
    summary: 'Search licences',
    description:
      'Searches by licence id, licence key, legacy key, activation, charge, checkout session, sale, host, or the beginning of a customer reference. Returns at most 20 licences, exact matches first.',
    scopes: ['read'],
    query: z.strictObject({ q }),
    answer: z.strictObject({
      data: z.array(
        z.strictObject({
          matched: z.enum(closedSets.searchMatch).describe('The field that matched.'),
          licence: licenceSchema,
        }),
      ),
    }),
    handle: async (call) => {
      const asked = { ...within(call), query: call.query.q }
      // Licensing gets the licences that billing found, because it determines the order of all matches.
      const { licences } = await call.services.billing.findLicencesOfSale(asked)
      const { found } = await call.services.licensing.searchLicences({ ...asked, ofSales: licences })
      return {
        body: {
          data: found.map(({ matched, licence }) => ({
            matched: readMember('searchMatch', matched),
            licence: licenceJson(licence!),
          })),
        },
      }
    },
  }),
]
