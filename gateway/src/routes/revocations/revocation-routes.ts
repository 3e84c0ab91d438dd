import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { matchesEntityTag, quoted } from '../../http/entity-tag.ts'
import { keylessRoute } from '../../route.ts'
import type { Answer, Route } from '../../route.ts'

const tag = 'Installed products'

// A revocation has to be seen within 2 seconds; a cache may spare us the burst of a second.
const listCaching = 'public, max-age=1'
// A key is published before the first token is signed with it; a change is everywhere within a minute.
const keysCaching = 'public, max-age=55'

const since = z
  .string()
  .meta({
    type: 'integer',
    minimum: 0,
    description: 'A version given out before: only what was added after it.',
  })
  .transform((value, context) => {
    if (/^(?:0|[1-9][0-9]{0,15})$/.test(value) && Number.isSafeInteger(Number(value))) return BigInt(value)
    context.addIssue({ code: 'custom', message: 'must be a version: a whole number from 0' })
    return z.NEVER
  })

const revocationsSchema = z
  .strictObject({
    version: z.int(),
    revoked: z.array(id('lic')),
    signature: z
      .string()
      .describe(
        'Compact JWS; its payload is the JSON `{app_id, version, since, revoked, iat, exp}`. Where more than 256 licences were revoked after the version asked for, the signed list may start from an earlier one.',
      ),
  })
  .meta({ id: 'Revocations' })

const jwksSchema = z
  .object({
    keys: z.array(z.record(z.string(), z.unknown())),
    signed: z
      .array(z.string())
      .describe(
        'The same set signed by each current root key: a compact JWS, header `{alg: "EdDSA", kid: <root_key>}`, payload `{app_id, keys, iat, exp}`. What is past its `exp`, or older than one held, is not to be believed.',
      ),
  })
  .meta({ id: 'JsonWebKeySet' })

export const revocationRoutes: Route[] = [
  keylessRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/revocations',
    operationId: 'getRevocations',
    tag,
    summary: 'Read which licences are revoked',
    description:
      'Signed, cacheable, and at most 2 seconds old. Ask with `since` for what was added after a version.',
    audience: 'product',
    query: z.object({ since: since.optional() }),
    answer: revocationsSchema,
    alsoAnswers: { 304: 'Nothing changed since the `ETag` in `If-None-Match`.' },
    answerHeaders: { ETag: 'Names this state of the list.' },
    handle: async ({
      services,
      params,
      query,
      header,
    }): Promise<Answer<z.output<typeof revocationsSchema>>> => {
      const ifNoneMatch = header('if-none-match')
      const list = await services.products.getRevocations({
        applicationId: params.app_id,
        since: query.since,
        ifNoneMatch,
      })
      const headers = { etag: quoted(list.etag), 'cache-control': listCaching }
      if (list.notModified || matchesEntityTag(ifNoneMatch, list.etag)) return { status: 304, headers }
      return {
        headers,
        body: { version: Number(list.version), revoked: list.revoked, signature: list.signature },
      }
    },
  }),
  keylessRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/jwks.json',
    operationId: 'getSigningKeys',
    tag,
    summary: 'Read the public keys that tokens and revocation lists are signed with',
    description: 'A product believes keys only inside a `signed` that a root key compiled into it verifies.',
    audience: 'product',
    answer: jwksSchema,
    handle: async ({ services, params }) => {
      const { jwksJson } = await services.products.getSigningKeys({ applicationId: params.app_id })
      return { json: jwksJson, headers: { 'cache-control': keysCaching } }
    },
  }),
]
