import { problemOf, type OperationContext } from './operation-context.ts'
import type { Answer } from './service.ts'
import { isObject, isString } from './shape.ts'

/** A check reads at most this many answers, about a million licences. The next check goes on from there. */
const MAX_ANSWERS = 64

/**
 * Reads the revocation list to its end: the additions since the current version, or the whole list. What was received
 * counts and is kept, also if a later answer fails. After a failure the current list stays, at most until the token ends.
 */
export async function checkRevocations(context: OperationContext, signal: AbortSignal): Promise<void> {
  const { installation } = context
  if (!installation.token || installation.revoked || context.isBlocked('list')) return
  let outcome = await readList(context, installation.list?.version ?? null, signal)
  // The service does not know the current version, or its list does not continue it: read the whole list.
  if (outcome === 'start_over') outcome = await readList(context, null, signal)
  const problem = outcome === 'start_over' ? LIST_GAP : outcome
  context.recordOutcome('check', 'list', problem, installation.token.claims.checkIntervalMs)
}

type Outcome = 'start_over' | { code: string; detail: string; retryAfterMs?: number | null } | null

async function readList(
  context: OperationContext,
  from: number | null,
  signal: AbortSignal,
): Promise<Outcome> {
  let since = from
  for (let answers = 0; answers < MAX_ANSWERS; answers++) {
    const outcome = await requestList(context, since, signal)
    if (typeof outcome !== 'number') return outcome
    if (context.installation.revoked) return null
    since = outcome
  }
  return null
}

const LIST_GAP = { code: 'list_gap', detail: 'the list has a gap: it does not continue the stored one' }

/** @returns the version from which the list goes on, or how reading it has ended */
async function requestList(
  context: OperationContext,
  since: number | null,
  signal: AbortSignal,
): Promise<Outcome | number> {
  const { installation, product } = context
  const query = since === null ? '' : `?since=${since}`
  const path = `/v1/apps/${encodeURIComponent(product.appId)}/revocations${query}`
  const current = installation.list
  // A 304 is not signed, so a list that has ended must be read again.
  const isConfirmable = current?.etagSince === since && installation.time() < current.expiresAt
  const ifNoneMatch = isConfirmable ? current.etag : null
  const answer = await context.ask({ method: 'GET', path, ifNoneMatch }, signal)
  if (answer.kind === 'refusal' && answer.status === 422 && since !== null) return 'start_over'
  if (answer.kind !== 'success') return problemOf(answer)
  if (answer.status === 304 && ifNoneMatch !== null) {
    installation.confirmList()
    return null
  }
  return acceptAnswer(context, answer, since, signal)
}

async function acceptAnswer(
  context: OperationContext,
  answer: Answer & { kind: 'success' },
  since: number | null,
  signal: AbortSignal,
): Promise<Outcome | number> {
  const { installation } = context
  // Only the signed text is used; the other fields are for people.
  if (!isObject(answer.body) || !isString(answer.body['signature'])) return problemOf(answer)
  const jws = answer.body['signature']
  const read = await context.readSigned(() => installation.readList(jws), signal, installation.time())
  if ('problem' in read) return problemOf(read.problem)
  const { version, more } = read.value
  const acceptance = installation.acceptList(read.value, jws, answer.etag, since)
  // The first answers of a whole list have lower versions than the current one.
  if (more && version > (since ?? -1) && (acceptance === 'accepted' || acceptance === 'list_outdated'))
    return version
  if (acceptance === 'accepted' && !more) return null
  if (acceptance === 'list_gap' && since !== null) return 'start_over'
  if (acceptance === 'accepted') return problemOf(answer)
  return {
    code: acceptance,
    detail: `version ${version} is expired, or not newer than the stored list`,
  }
}
