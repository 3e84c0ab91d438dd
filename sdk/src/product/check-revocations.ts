import { troubleOf, type Contact } from './contact.ts'
import type { Answer } from './service.ts'
import { isObject, isString } from './shape.ts'

/**
 * Reads the revocation list: the additions since the current version, or the whole list. After a failure the current list
 * stays, at most until the token ends.
 */
export async function checkRevocations(contact: Contact, signal: AbortSignal): Promise<void> {
  const { installation } = contact
  if (!installation.token || installation.revoked || contact.isClosed('list')) return
  const held = installation.list
  let outcome = await look(contact, held?.version ?? null, signal)
  // The service does not know the current version, or its list does not continue it: read the whole list.
  if (outcome === 'start_over') outcome = await look(contact, null, signal)
  const trouble = outcome === 'start_over' ? LIST_GAP : outcome
  contact.settle('check', 'list', trouble, installation.token.claims.checkIntervalMs)
}

type Outcome = 'start_over' | { code: string; detail: string; retryAfterMs?: number | null } | null

const LIST_GAP = { code: 'list_gap', detail: 'the list has a gap: it does not continue the stored one' }

async function look(contact: Contact, since: number | null, signal: AbortSignal): Promise<Outcome> {
  const { installation, product } = contact
  const query = since === null ? '' : `?since=${since}`
  const path = `/v1/apps/${encodeURIComponent(product.appId)}/revocations${query}`
  const held = installation.list
  // A 304 is not signed, so a list that has ended must be read again.
  const isConfirmable = held?.etagSince === since && installation.time() < held.expiresAt
  const ifNoneMatch = isConfirmable ? held.etag : null
  const answer = await contact.ask({ method: 'GET', path, ifNoneMatch }, signal)
  if (answer.kind === 'no' && answer.status === 422 && since !== null) return 'start_over'
  if (answer.kind !== 'good') return troubleOf(answer)
  if (answer.status === 304 && ifNoneMatch !== null) {
    installation.confirmList()
    return null
  }
  return take(contact, answer, since, signal)
}

async function take(
  contact: Contact,
  answer: Answer & { kind: 'good' },
  since: number | null,
  signal: AbortSignal,
): Promise<Outcome> {
  const { installation } = contact
  // Only the signed text is used; the other fields are for people.
  if (!isObject(answer.body) || !isString(answer.body['signature'])) return troubleOf(answer)
  const jws = answer.body['signature']
  const read = await contact.readSigned(() => installation.readList(jws), signal, installation.time())
  if ('trouble' in read) return troubleOf(read.trouble)
  const acceptance = installation.learn(read.value, jws, answer.etag, since)
  if (acceptance === 'accepted') return null
  if (acceptance === 'list_gap' && since !== null) return 'start_over'
  return {
    code: acceptance,
    detail: `version ${read.value.version} is expired, or not newer than the stored list`,
  }
}
