import { z } from 'zod'
import { ServiceError } from '@licensing/grpc/errors'
import { Readable } from 'node:stream'
import { id } from '../../fields/id.ts'
import { keylessRoute } from '../../route.ts'
import type { Answer, Route } from '../../route.ts'

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
    version: z.int(),
    revoked: z.array(id('lic')),
    signature: z
      .string()
      .describe(
        'Compact JWS with the payload `{app_id, version, since, revoked, iat, exp}`. If more than 256 licences were revoked after `since`, the signed list can start at an earlier version.',
      ),
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

// A part has a quarter of a megabyte. Each answer holds the part that is being sent and the next: about 30 MB in total.
const maxAtOnce = 32
const maxPerApplication = 16
const maxPerCaller = 4
// If a caller does not read a part in this time, its answer is aborted, so that another one can be sent.
const maxPartMs = 30_000

const sending: Receiver[] = []

export const revocationRoutes: Route[] = [
  keylessRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/revocations',
    operationId: 'getRevocations',
    tag,
    summary: 'Get the revocation list',
    description:
      'The list is signed, cacheable and at most 2 seconds old. Send `since` to get only the licences added after a version. An answer has at most 1,048,576 licences: if there are more, it is the list of an earlier `version`, and the next request continues from there. If too many long lists are being sent, the answer is 503 with `Retry-After`.',
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
    }): Promise<Answer<z.output<typeof revocationsSchema>>> => {
      const ifNoneMatch = header('if-none-match')
      const list = await services.products.getRevocations({
        applicationId: params.app_id,
        since: query.since,
        ifNoneMatch,
      })
      const headers = { etag: quoted(list.etag), 'cache-control': listCaching }
      if (list.notModified || matchesEntityTag(ifNoneMatch, list.etag)) return { status: 304, headers }
      const first = Buffer.from(list.json.buffer, list.json.byteOffset, list.json.byteLength)
      if (list.parts <= 1) return { headers, json: first }
      const { app_id: applicationId } = params
      const part = async (part: number) => {
        const { json } = await services.products.getRevocationsPart({ applicationId, list: list.list, part })
        return json
      }
      return { headers, json: sendInParts({ caller, applicationId }, first, list.parts, part) }
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

interface Receiver {
  caller: string
  applicationId: string
}

/**
 * Sends an answer that is too long for memory part by part, as fast as the caller reads. The number of such answers at a
 * time is limited in total, per application and per caller. Further requests are refused with `unavailable`.
 *
 * @param part fetches a part after the first
 */
function sendInParts(
  receiver: Receiver,
  first: Uint8Array,
  parts: number,
  part: (at: number) => Promise<Uint8Array>,
): Readable {
  const { caller, applicationId } = receiver
  if (
    sending.length >= maxAtOnce ||
    sending.filter((other) => other.applicationId === applicationId).length >= maxPerApplication ||
    sending.filter((other) => other.caller === caller).length >= maxPerCaller
  ) {
    throw new ServiceError('unavailable', 'too many long revocation lists are being sent: try again')
  }
  sending.push(receiver)
  const stream = Readable.from(inParts(first, parts, part, () => idle.refresh()))
  const idle = setTimeout(() => stream.destroy(new Error('the caller reads too slowly')), maxPartMs)
  stream.once('close', () => {
    clearTimeout(idle)
    sending.splice(sending.indexOf(receiver), 1)
  })
  return stream
}

async function* inParts(
  first: Uint8Array,
  parts: number,
  part: (at: number) => Promise<Uint8Array>,
  taken: () => void,
): AsyncGenerator<Uint8Array> {
  yield first
  for (let at = 1; at < parts; at += 1) {
    yield await part(at)
    taken()
  }
}

/** Whether `If-None-Match` names this entity tag (RFC 9110, weak comparison). */
function matchesEntityTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return entityTags(ifNoneMatch).includes(opaque(tag))
}

/** The tags of an `If-None-Match` header, without `W/` and quotes. */
function entityTags(ifNoneMatch: string | undefined): string[] {
  return (ifNoneMatch ?? '')
    .split(',')
    .map((tag) => opaque(tag.trim()))
    .filter((tag) => tag !== '')
}

/** An entity tag in the form of a header. */
function quoted(tag: string): string {
  return `"${opaque(tag)}"`
}

function opaque(tag: string): string {
  return tag.replace(/^(?:W\/)?"?|"$/g, '')
}
