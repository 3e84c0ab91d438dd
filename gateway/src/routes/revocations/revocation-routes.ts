import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { keylessRoute } from '../../route.ts'
import type { Route, RouteAnswer } from '../../route.ts'
import { sendInChunks } from './send-in-chunks.ts'

const tag = 'Installed products'

// A revocation must be visible within 2 seconds, so caches may keep the list for one second.
const listCaching = 'public, max-age=1'
// A key is published long enough before the first token is signed with it. Caches see a change within a minute.
const keysCaching = 'public, max-age=55'

const since = z
  .string()
  .meta({
    type: 'integer',
    minimum: 0,
    description: 'A previous `version`: returns only licences added after it.',
  })
  .transform((value, context) => {
    if (/^(?:0|[1-9][0-9]{0,15})$/.test(value) && Number.isSafeInteger(Number(value))) return BigInt(value)
    context.addIssue({ code: 'custom', message: 'must be a version: a whole number from 0' })
    return z.NEVER
  })

const revocationsSchema = z
  .strictObject({
    version: z
      .int()
      .describe('The version of the list; if `more` is true, the version of the last licence in `revoked`.'),
    revoked: z.array(id('lic')).describe('At most 16,384 licences, oldest revocation first.'),
    more: z.boolean().describe('Whether the list goes on: send `version` as `since` to get the rest.'),
    signature: z
      .string()
      .describe('Compact JWS with the payload `{app_id, version, since, revoked, more, iat, exp}`.'),
  })
  .meta({ id: 'Revocations' })

const jwksSchema = z
  .object({
    keys: z.array(z.record(z.string(), z.unknown())),
    signed: z
      .array(z.string())
      .describe(
        'The key set, signed by each current root key: a compact JWS with the header `{alg: "EdDSA", kid: <root_key>}` and the payload `{app_id, keys, iat, exp}`. Reject an entry that is past its `exp` or older than one that you already have.',
      ),
  })
  .meta({ id: 'JsonWebKeySet' })

export const revocationRoutes: Route[] = [
  keylessRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/revocations',
    operationId: 'getRevocations',
    tag,
    summary: 'Get the revocation list',
    description:
      'The list is signed, cacheable and at most 2 seconds old. Send `since` to get only the licences added after a version. An answer has at most 16,384 licences; if there are more, `more` is true, and the rest is requested with `version` as `since`. `version` only grows. If too many long answers are being sent, the answer is 503 with `Retry-After`.',
    audience: 'product',
    query: z.strictObject({ since: since.optional() }),
    answer: revocationsSchema,
    alsoAnswers: { 304: 'Nothing changed since the `ETag` in `If-None-Match`.' },
    answerHeaders: { ETag: 'Identifies this state of the list.' },
    handle: async ({
      services,
      params,
      query,
      header,
      caller,
    }): Promise<RouteAnswer<z.output<typeof revocationsSchema>>> => {
      const ifNoneMatch = header('if-none-match')
      const list = await services.products.getRevocations({
        applicationId: params.app_id,
        since: query.since,
        ifNoneMatch,
      })
      const headers = { etag: list.etag, 'cache-control': listCaching }
      if (list.notModified) return { status: 304, headers }
      const json = Buffer.from(list.json.buffer, list.json.byteOffset, list.json.byteLength)
      return { headers, json: sendInChunks({ caller, applicationId: params.app_id }, json) }
    },
  }),
  keylessRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/jwks.json',
    operationId: 'getSigningKeys',
    tag,
    summary: 'Get the public keys of tokens and revocation lists',
    description: 'A product must trust only keys in a `signed` entry that its compiled-in root key verifies.',
    audience: 'product',
    answer: jwksSchema,
    handle: async ({ services, params }) => {
      const { jwksJson } = await services.products.getSigningKeys({ applicationId: params.app_id })
      return { json: jwksJson, headers: { 'cache-control': keysCaching } }
    },
  }),
]
