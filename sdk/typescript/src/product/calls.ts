import { NO_BACKOFF, afterFailure, isBlocked, withNewToken, withProblem } from './attempts.ts'
import type { Attempts, Kind, Trouble } from './attempts.ts'
import { acceptanceOf, revocationsOf, tokenOf, type Held, type Token, type Verified } from './held.ts'
import { trimUnseen } from './licence-key.ts'
import type { FileRefusal, Operation, RefusalReason } from './reasons.ts'
import { failure, unexpected, type Answer, type Ask } from './service.ts'
import { isObject, isString, isUnixTime } from './shape.ts'
import { unverified, type Unreadable } from './signature.ts'
import { grants, statusOf } from './state.ts'
import { readFile, readKeys, readList, readToken, type Identity } from './trust.ts'

/**
 * The calls of a product: which requests each one sends, and what follows from each answer. They read the two values of the
 * session, and change them only by `apply` and `record`.
 */
export interface Calling {
  readonly identity: Identity
  /** The description of the installation in requests. */
  readonly product: { readonly host: string; readonly productVersion: string }
  readonly held: Held
  readonly attempts: Attempts
  /** Reads the clock, and returns the trusted time in milliseconds. */
  time(): number
  apply(answer: Verified): void
  record(attempts: Attempts): void
  readonly ask: Ask
  readonly newNonce: () => string
}

type TokenOperation = 'activate' | 'refresh' | 'migrate' | 'start_trial'

/** The reasons of refusals, by operation. Any other refusal is a failure. */
export const REFUSALS: Record<TokenOperation, Readonly<Record<string, RefusalReason>>> = {
  activate: {
    '404 not_found': 'unknown_licence_key',
    '409 limit_reached': 'limit_reached',
    '409 quota_exceeded': 'quota_exceeded',
    '422 validation_failed': 'invalid_request',
  },
  refresh: {
    // The activation is known, so only a lease can be missing.
    '409 limit_reached': 'no_place',
    '401 unauthenticated': 'token_rejected',
    '404 not_found': 'activation_freed',
    '422 validation_failed': 'invalid_request',
  },
  migrate: {
    '404 not_found': 'unknown_legacy_key',
    '422 validation_failed': 'invalid_request',
  },
  start_trial: {
    '404 not_found': 'unknown_plan',
    '409 plan_archived': 'plan_archived',
    '409 limit_reached': 'limit_reached',
    '409 quota_exceeded': 'quota_exceeded',
    '422 validation_failed': 'invalid_request',
  },
}

/** The refusal in an answer; null if there is none. */
function refusalIn(operation: TokenOperation, answer: Answer): RefusalReason | null {
  if (answer.kind !== 'refusal') return null
  if (answer.code === 'licence_refused') return answer.reason ?? answer.code
  if (answer.code === 'limit_reached' && answer.reason === 'max_concurrent') return 'no_place'
  return REFUSALS[operation][`${answer.status} ${answer.code}`] ?? null
}

/** Activates the licence key, and receives a token. */
export async function activate(on: Calling, signal: AbortSignal): Promise<void> {
  if (on.held.licence.key === null) return on.record({ ...on.attempts, absence: 'no_licence_key' })
  if (isWaiting(on, 'token')) return
  const nonce = on.newNonce()
  let answer = await requestToken(on, nonce, signal)
  const refusal = refusalIn('activate', answer)
  const isFull = refusal === 'limit_reached' || refusal === 'no_place' || refusal === 'quota_exceeded'
  if (isFull && (await freeFormerActivation(on, signal))) answer = await requestToken(on, nonce, signal)
  const problem = await receiveToken(on, answer, nonce, signal)
  // If the vendor has given the licence another key, the activation and its expired token can still be renewed.
  const token = refusal === 'unknown_licence_key' ? tokenOf(on.held) : null
  const isRenewed = token !== null && (await renewToken(on, token, signal)) === null
  recordTokenOutcome(on, 'activate', isRenewed ? null : problem)
}

function requestToken(on: Calling, nonce: string, signal: AbortSignal): Promise<Answer> {
  const body = { licence_key: on.held.licence.key, ...descriptionOf(on), nonce }
  return on.ask({ method: 'POST', path: '/v1/activations', body }, signal)
}

function descriptionOf({ identity, product }: Calling) {
  return { fingerprint: identity.fingerprint, host: product.host, product_version: product.productVersion }
}

/** Frees the activation that this machine has under its former fingerprint. False if there is none or it cannot be freed. */
async function freeFormerActivation(on: Calling, signal: AbortSignal): Promise<boolean> {
  const { token } = on.held.licence
  if (!token || token.formerFingerprint === null) return false
  return isGone(await on.ask({ method: 'DELETE', path: pathOf(token), token: token.jws }, signal))
}

/** Requests a new token for the activation. */
export async function refresh(on: Calling, signal: AbortSignal): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isOfflineNow(on) || isRevoked(on) || isWaiting(on, 'token')) return
  const problem = await renewToken(on, token, signal)
  const refusal = problem && refusalIn('refresh', problem)
  const needsActivation = refusal === 'token_rejected' || refusal === 'activation_freed'
  // The activation was freed, or its token is too old. If there is a licence key, it is activated again.
  if (needsActivation && on.held.licence.key !== null) await activate(on, signal)
  else recordTokenOutcome(on, 'refresh', problem)
}

/** Replaces the token by a new one of its activation; null if that worked. */
async function renewToken(on: Calling, token: Token, signal: AbortSignal): Promise<Answer | null> {
  const nonce = on.newNonce()
  const body = { product_version: on.product.productVersion, host: on.product.host, nonce }
  const answer = await on.ask(
    { method: 'POST', path: `${pathOf(token)}/refresh`, body, token: token.jws },
    signal,
  )
  return receiveToken(on, answer, nonce, signal)
}

/** Tells the service that this installation is in use, whatever the licence's status. */
export async function callHome(on: Calling, signal: AbortSignal): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isWaiting(on, 'token')) return
  const body = { product_version: on.product.productVersion, host: on.product.host }
  const answer = await on.ask(
    { method: 'POST', path: `${pathOf(token)}/call-home`, body, token: token.jws },
    signal,
  )
  recordProblem(on, 'call_home', answer.kind === 'success' ? null : troubleOf(answer))
}

/** Ends the lease of a floating licence, and then the use of the token. The activation stays. */
export async function release(on: Calling, signal: AbortSignal): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isOfflineNow(on) || isWaiting(on, 'token')) return
  const answer = await on.ask({ method: 'POST', path: `${pathOf(token)}/release`, token: token.jws }, signal)
  recordFreed(on, 'release', isGone(answer) && token.floating ? 'released' : null, answer)
}

/** Frees the activation at the service, then deletes the token. */
export async function deactivate(on: Calling, signal: AbortSignal): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isWaiting(on, 'token')) return
  const answer = await on.ask({ method: 'DELETE', path: pathOf(token), token: token.jws }, signal)
  recordFreed(on, 'deactivate', isGone(answer) ? 'deactivated' : null, answer)
}

function recordFreed(
  on: Calling,
  operation: Operation,
  absence: 'released' | 'deactivated' | null,
  answer: Answer,
): void {
  if (absence !== null) {
    on.apply({ kind: 'freed' })
    on.record(withNewToken(on.attempts, absence))
  }
  recordOutcome(on, operation, 'token', isGone(answer) ? null : troubleOf(answer))
}

/** The service has freed what was to be freed, or does not know it any more. */
function isGone(answer: Answer): boolean {
  return answer.kind === 'success' || (answer.kind === 'refusal' && answer.status === 404)
}

/** Starts a trial, or continues with the licence key of the trial that was started before. */
export async function startTrial(on: Calling, planCode: string, signal: AbortSignal): Promise<void> {
  if (on.held.licence.key !== null) return activate(on, signal)
  if (isWaiting(on, 'token')) return
  const nonce = on.newNonce()
  const body = { plan_code: planCode, ...descriptionOf(on), nonce }
  const answer = await on.ask({ method: 'POST', path: `${appPath(on)}/trials`, body }, signal)
  recordTokenOutcome(on, 'start_trial', await receiveToken(on, answer, nonce, signal, licenceKeyIn(answer)))
}

function licenceKeyIn(answer: Answer): string | undefined {
  const key = answer.kind === 'success' && isObject(answer.body) ? answer.body['licence_key'] : undefined
  return isString(key) ? key : undefined
}

/** Exchanges a legacy key for a licence key, once, and activates with that. */
export async function migrate(on: Calling, given: string, signal: AbortSignal): Promise<void> {
  const legacyKey = trimUnseen(given)
  const { licence } = on.held
  const isExchanged = licence.legacyKey === legacyKey && licence.key !== null
  if (!isExchanged && !(await exchange(on, legacyKey, signal))) return
  on.time()
  if (!isExchanged || !isUsable(on)) await activate(on, signal)
}

async function exchange(on: Calling, legacyKey: string, signal: AbortSignal): Promise<boolean> {
  if (isWaiting(on, 'token')) return false
  const body = { legacy_key: legacyKey }
  const answer = await on.ask({ method: 'POST', path: `${appPath(on)}/migrate`, body }, signal)
  const licenceKey = answer.kind === 'success' && isObject(answer.body) ? answer.body['key'] : undefined
  if (isString(licenceKey)) {
    on.apply({ kind: 'exchange', legacyKey, licenceKey })
    recordOutcome(on, 'migrate', 'token', null)
    return true
  }
  // A failed exchange does not change the licence held.
  const refusal = refusalIn('migrate', answer)
  const trouble = refusal ? { code: refusal, detail: legacyKey } : troubleOf(answer)
  if (tokenOf(on.held)) recordOutcome(on, 'migrate', 'token', trouble)
  else recordTokenOutcome(on, 'migrate', answer)
  return false
}

/** Reads an offline licence file, without network. If the file is refused, the licence held stays. */
export async function activateOffline(on: Calling, text: unknown): Promise<void> {
  on.time()
  const { keys, licence } = on.held
  const token = await readFile(text, on.identity, {
    keys,
    current: tokenOf(on.held)?.claims ?? null,
    timeFor: (jws) => timeFor(on, jws, licence.nonce),
  })
  if (isString(token)) {
    const isReason = tokenOf(on.held) === null
    if (isReason && licence.refusal !== null) on.apply({ kind: 'refusal', reason: null })
    if (isReason) on.record({ ...on.attempts, absence: token, failure: null })
    return recordProblem(on, 'activate_offline', { code: token, detail: FILE_REFUSALS[token] })
  }
  accept(on, { ...token, floating: false, formerFingerprint: null }, licence.nonce)
  recordProblem(on, 'activate_offline', null)
}

export const FILE_REFUSALS: Record<FileRefusal, string> = {
  root_key_required: 'offline files need a client with a rootKey',
  file_malformed: 'the text is no offline licence file',
  file_of_another_application: 'the file was made for another application',
  file_of_another_machine: 'the file was made for another fingerprint',
  file_expired: 'the file is past its end',
  file_outdated: 'the file is older than the one in use',
  keys_outdated: 'the key that signed the file has been withdrawn',
  untrusted_keys: 'the file is not signed with a root key of this product',
  untrusted_signature: 'the token is not signed by a key of the file',
  unsupported_runtime: 'Web Crypto of this runtime does not support Ed25519',
}

/** A check reads at most this many answers, about a million licences. The next check goes on from there. */
const MAX_ANSWERS = 64

/**
 * Reads the revocation list to its end: the additions since the current version, or the whole list. What was received
 * counts and is kept, also if a later answer fails. After a failure the current list stays, at most until the token ends.
 */
export async function check(on: Calling, signal: AbortSignal): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isRevoked(on) || isWaiting(on, 'list')) return
  let outcome = await readListFrom(on, revocationsOf(on.held).list?.version ?? null, signal)
  // The service does not know the current version, or its list does not continue it: read the whole list.
  if (outcome === 'start_over') outcome = await readListFrom(on, null, signal)
  const trouble = outcome === 'start_over' ? LIST_GAP : outcome
  recordOutcome(on, 'check', 'list', trouble, token.claims.checkIntervalMs)
}

type ListOutcome = 'start_over' | Trouble | null

const LIST_GAP = {
  code: 'list_gap' as const,
  detail: 'the list has a gap: it does not continue the stored one',
}

async function readListFrom(on: Calling, from: number | null, signal: AbortSignal): Promise<ListOutcome> {
  let since = from
  for (let answers = 0; answers < MAX_ANSWERS; answers++) {
    const outcome = await requestList(on, since, signal)
    if (typeof outcome !== 'number') return outcome
    if (isRevoked(on)) return null
    since = outcome
  }
  return null
}

/** @returns the version from which the list goes on, or how reading it has ended */
async function requestList(
  on: Calling,
  since: number | null,
  signal: AbortSignal,
): Promise<ListOutcome | number> {
  const path = `${appPath(on)}/revocations${since === null ? '' : `?since=${since}`}`
  const current = revocationsOf(on.held).list
  // A 304 is not signed, so a list that has ended must be read again.
  const isConfirmable = current?.etagSince === since && on.time() < current.expiresAt
  const ifNoneMatch = isConfirmable ? current.etag : null
  const answer = await on.ask({ method: 'GET', path, ifNoneMatch }, signal)
  if (answer.kind === 'refusal' && answer.status === 422 && since !== null) return 'start_over'
  if (answer.kind !== 'success') return troubleOf(answer)
  if (answer.status !== 304 || ifNoneMatch === null) return receiveList(on, answer, since, signal)
  on.time()
  on.apply({ kind: 'list_unchanged' })
  return null
}

async function receiveList(
  on: Calling,
  answer: Answer & { kind: 'success' },
  since: number | null,
  signal: AbortSignal,
): Promise<ListOutcome | number> {
  // Only the signed text is used; the other fields are for people.
  if (!isObject(answer.body) || !isString(answer.body['signature'])) return troubleOf(answer)
  const jws = answer.body['signature']
  const read = () => {
    const { keys } = on.held
    return keys && keys.expiresAt <= on.time() ? 'unknown_key' : readList(jws, keys, on.identity.appId)
  }
  const list = await readSigned(on, read, on.time(), signal)
  if ('kind' in list) return troubleOf(list)
  on.time()
  const acceptance = acceptanceOf(list, on.held)
  on.apply({ kind: 'list', list, etag: answer.etag, since })
  const { version, more } = list
  // The first answers of a whole list have lower versions than the current one.
  if (more && version > (since ?? -1) && (acceptance === 'accepted' || acceptance === 'list_outdated'))
    return version
  if (acceptance === 'accepted') return more ? troubleOf(answer) : null
  if (acceptance === 'list_gap' && since !== null) return 'start_over'
  return { code: acceptance, detail: `version ${version} is expired, or not newer than the stored list` }
}

// Steps that the calls share

/** Reads the token of an answer to a request with `nonce`, and accepts it; null if it is valid. */
async function receiveToken(
  on: Calling,
  answer: Answer,
  nonce: string,
  signal: AbortSignal,
  licenceKey?: string,
): Promise<Answer | null> {
  if (answer.kind !== 'success') return answer
  const { body } = answer
  if (!isObject(body) || !isString(body['token'])) return unexpected(answer)
  const jws = body['token']
  const time = timeFor(on, jws, nonce)
  const claims = await readSigned(on, () => readToken(jws, on.held.keys, on.identity, time), time, signal)
  if ('kind' in claims) return claims
  if (claims.activationId !== body['activation_id'] || claims.licenceId !== body['licence_id']) {
    return failure('untrusted_signature', 'the token belongs to another activation')
  }
  const floating = isString(body['lease_ends_at'])
  accept(on, { jws, claims, fileKeys: null, floating, formerFingerprint: null }, nonce, licenceKey)
  // Fetches the keys before they end, so that a start without the network has keys for a valid token. If this
  // fails, the token is accepted all the same.
  if (areKeysDue(on)) await fetchKeys(on, signal, time)
  return null
}

function accept(on: Calling, token: Token, nonce: string | null, licenceKey?: string): void {
  on.time()
  on.apply({ kind: 'token', token, nonce, licenceKey })
  on.record(withNewToken(on.attempts))
}

/**
 * The time at which an answer to a request with `nonce` is checked. A token with this nonce was issued after the request:
 * if the trusted time is ahead of the clock, the clock counts. Nothing is verified here.
 */
function timeFor(on: Calling, jws: string, nonce: string | null): number {
  const time = on.time()
  const claims = unverified(jws)
  if (nonce === null || claims?.['nonce'] !== nonce || !isUnixTime(claims['iat'])) return time
  return Math.max(on.held.time.local, claims['iat'] * 1000)
}

/** Whether half of the life of the keys is over. They are renewed then, so that no token lasts longer than its keys. */
function areKeysDue(on: Calling): boolean {
  const { keys } = on.held
  return keys !== null && on.time() >= keys.issuedAt + (keys.expiresAt - keys.issuedAt) / 2
}

/** Fetches the application's public keys and checks them at `time`; null on success. */
async function fetchKeys(on: Calling, signal: AbortSignal, time: number): Promise<Failure | null> {
  const answer = await on.ask({ method: 'GET', path: `${appPath(on)}/jwks.json` }, signal)
  if (answer.kind !== 'success') return unexpected(answer)
  const keys = await readKeys(answer.body, on.identity, on.held.keys, time)
  if (keys === 'unexpected_answer') return unexpected(answer)
  if (isString(keys)) return failure(keys, KEYS_REFUSALS[keys])
  on.apply({ kind: 'keys', keys })
  return null
}

const NO_ED25519 = 'Web Crypto of this runtime does not support Ed25519'

const KEYS_REFUSALS = {
  untrusted_keys: 'the keys are not signed with a root key of this product',
  keys_expired: 'the signed keys are past their end, or the clock is ahead',
  keys_outdated: 'the signed keys are older than those held',
  unsupported_runtime: NO_ED25519,
}

type Failure = Answer & { kind: 'failure' }

/** Reads a signed text. If it is signed with an unknown key, the keys are fetched once. */
async function readSigned<T extends object>(
  on: Calling,
  read: () => Promise<T | Unreadable> | Unreadable,
  time: number,
  signal: AbortSignal,
): Promise<T | Failure> {
  let value = await read()
  if (value === 'unknown_key') {
    const problem = await fetchKeys(on, signal, time)
    if (problem) return problem
    value = await read()
  }
  if (value === 'unsupported_runtime') return failure('unsupported_runtime', NO_ED25519)
  return isString(value) ? failure('untrusted_signature', 'not signed by a key of this application') : value
}

/** Records a try to get a token: success (null), a refusal, or a failure. */
function recordTokenOutcome(on: Calling, operation: TokenOperation, problem: Answer | null): void {
  const claims = tokenOf(on.held)?.claims
  if (!problem) {
    recordProblem(on, operation, null)
    // If the new token is due for renewal already, another call would bring no better token, so the next one waits.
    const isDue = claims !== undefined && on.time() >= claims.refreshAfter
    return setBackoff(on, 'token', isDue ? {} : null)
  }
  // A token of a short lease needs several tries between half of its life and its end.
  const maxMs = claims && (claims.expiresAt - claims.issuedAt) / 8
  const reason = refusalIn(operation, problem)
  if (reason !== null) {
    on.apply({ kind: 'refusal', reason })
    on.record({ ...on.attempts, failure: null })
    const detail = problem.kind === 'success' ? '' : problem.detail
    return recordOutcome(on, operation, 'token', { code: reason, detail }, maxMs)
  }
  on.record({ ...on.attempts, failure: unexpected(problem).reason })
  recordOutcome(on, operation, 'token', troubleOf(problem), maxMs)
}

/** Records how an operation ended, and when the next try of its kind may be. */
function recordOutcome(
  on: Calling,
  operation: Operation,
  kind: Kind,
  trouble: Trouble | null,
  maxMs?: number,
): void {
  recordProblem(on, operation, trouble)
  setBackoff(on, kind, trouble && { retryAfterMs: trouble.retryAfterMs ?? null, maxMs })
}

function recordProblem(on: Calling, operation: Operation, trouble: Trouble | null): void {
  on.record(withProblem(on.attempts, operation, trouble, on.time()))
}

function setBackoff(
  on: Calling,
  kind: Kind,
  wait: { retryAfterMs?: number | null; maxMs?: number | undefined } | null,
): void {
  const { backoff } = on.attempts
  const delay = wait && { random: Math.random(), retryAfterMs: wait.retryAfterMs ?? null, maxMs: wait.maxMs }
  const next = delay ? afterFailure(backoff[kind], on.time(), delay) : NO_BACKOFF
  on.record({ ...on.attempts, backoff: { ...backoff, [kind]: next } })
}

function troubleOf(answer: Answer): Trouble {
  const { reason, detail, retryAfterMs } = unexpected(answer)
  return { code: reason, detail, retryAfterMs }
}

/** The service answered with a `Retry-After` that has not passed. */
function isWaiting(on: Calling, kind: Kind): boolean {
  return isBlocked(on.attempts.backoff[kind], on.time())
}

/** Whether the valid token came in a file. Only another file renews it, because tokens of the service are shorter. */
function isOfflineNow(on: Calling): boolean {
  const claims = tokenOf(on.held)?.claims
  return claims !== undefined && claims.offline && on.time() < claims.expiresAt
}

export function isRevoked({ held }: Pick<Calling, 'held'>): boolean {
  return revocationsOf(held).namedBy !== null
}

export function isUsable({ held, attempts }: Pick<Calling, 'held' | 'attempts'>): boolean {
  return grants(statusOf(held, attempts).status)
}

function appPath({ identity }: Calling): string {
  return `/v1/apps/${encodeURIComponent(identity.appId)}`
}

function pathOf({ claims }: Token): string {
  return `/v1/activations/${encodeURIComponent(claims.activationId)}`
}
