import { afterFailure, isBlocked, NO_BACKOFF, withNewToken, withProblem } from './attempts.ts'
import type { Attempts, Kind, Trouble } from './attempts.ts'
import { acceptanceOf, revocationsOf, tokenOf, type Held, type Token, type Verified } from './held.ts'
import { FILE_REFUSALS, type Operation, type RefusalReason } from './reasons.ts'
import { failure, unexpected, type Answer, type Call, type Failure } from './service.ts'
import { isString } from './shape.ts'
import type { Unreadable } from './signature.ts'
import type { LicenceState } from './state.ts'
import { readFile, readKeys, readList, readToken, timeFor, type Identity } from './trust.ts'

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
  /** Reads the clock; so do `time` and `apply`. */
  readonly state: LicenceState
  /** The trusted time in milliseconds. */
  time(): number
  apply(answer: Verified): void
  record(change: Partial<Attempts>): void
  /** Sends a request, at most until the call's time has passed. */
  ask(call: Call): Promise<Answer>
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

/** Gets a token, unless there is one that is valid. */
export async function activate(on: Calling): Promise<void> {
  if (on.state.usable || isRevoked(on)) return
  await (on.held.licence.key === null && tokenOf(on.held) ? refresh : activateKey)(on)
}

/** Activates the licence key, and receives a token. */
async function activateKey(on: Calling): Promise<void> {
  if (on.held.licence.key === null) return on.record({ absence: 'no_licence_key' })
  if (isWaiting(on, 'token')) return
  const nonce = on.newNonce()
  const body = { licence_key: on.held.licence.key, ...installationOf(on), nonce }
  const request = { method: 'POST', path: '/v1/activations', body } as const
  let answer = await on.ask(request)
  const refusal = refusalIn('activate', answer)
  const isFull = refusal === 'limit_reached' || refusal === 'no_place' || refusal === 'quota_exceeded'
  if (isFull && (await freeFormerActivation(on))) answer = await on.ask(request)
  const problem = await receiveToken(on, answer, nonce)
  // If the vendor has given the licence another key, the activation and its expired token can still be renewed.
  const token = refusal === 'unknown_licence_key' ? tokenOf(on.held) : null
  const isRenewed = token !== null && (await renewToken(on, token)) === null
  recordTokenOutcome(on, 'activate', isRenewed ? null : problem)
}

function installationOf({ identity, product }: Calling) {
  return { fingerprint: identity.fingerprint, host: product.host, product_version: product.productVersion }
}

/** Frees the activation that this machine has under its former fingerprint. False if there is none or it cannot be freed. */
async function freeFormerActivation(on: Calling): Promise<boolean> {
  const { token } = on.held.licence
  return token !== null && token.formerFingerprint !== null && isGone(await askFor(on, token, 'DELETE'))
}

/** Sends a request for the activation of a token. */
function askFor(on: Calling, token: Token, method: 'POST' | 'DELETE', verb = '', body?: Call['body']) {
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}${verb}`
  return on.ask({ method, path, token: token.jws, ...(body && { body }) })
}

/** Requests a new token for the activation. */
export async function refresh(on: Calling): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isOfflineNow(on) || isRevoked(on) || isWaiting(on, 'token')) return
  const problem = await renewToken(on, token)
  const refusal = problem && refusalIn('refresh', problem)
  const needsActivation = refusal === 'token_rejected' || refusal === 'activation_freed'
  // The activation was freed, or its token is too old. If there is a licence key, it is activated again.
  if (needsActivation && on.held.licence.key !== null) await activateKey(on)
  else recordTokenOutcome(on, 'refresh', problem)
}

/** Replaces the token by a new one of its activation; null if that worked. */
async function renewToken(on: Calling, token: Token): Promise<Answer | null> {
  const nonce = on.newNonce()
  return receiveToken(on, await askFor(on, token, 'POST', '/refresh', { ...productOf(on), nonce }), nonce)
}

function productOf({ product }: Calling) {
  return { product_version: product.productVersion, host: product.host }
}

/** Tells the service that this installation is in use, whatever the licence's status. */
export async function callHome(on: Calling): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isWaiting(on, 'token')) return
  const answer = await askFor(on, token, 'POST', '/call-home', productOf(on))
  recordProblem(on, 'call_home', answer.kind === 'success' ? null : unexpected(answer))
}

/** Ends the lease of a floating licence, and then the use of the token. The activation stays. */
export async function release(on: Calling): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isOfflineNow(on) || isWaiting(on, 'token')) return
  recordFreed(on, 'release', await askFor(on, token, 'POST', '/release'), token.floating ? 'released' : null)
}

/** Frees the activation at the service, then deletes the token. */
export async function deactivate(on: Calling): Promise<void> {
  const token = tokenOf(on.held)
  if (!token || isWaiting(on, 'token')) return
  recordFreed(on, 'deactivate', await askFor(on, token, 'DELETE'), 'deactivated')
}

function recordFreed(
  on: Calling,
  operation: Operation,
  answer: Answer,
  absence: 'released' | 'deactivated' | null,
): void {
  if (!isGone(answer)) return recordOutcome(on, operation, 'token', unexpected(answer))
  if (absence !== null) {
    on.apply({ kind: 'freed' })
    on.record(withNewToken(on.attempts, absence))
  }
  recordOutcome(on, operation, 'token', null)
}

/** The service has freed what was to be freed, or does not know it any more. */
function isGone(answer: Answer): boolean {
  return answer.kind === 'success' || (answer.kind === 'refusal' && answer.status === 404)
}

/** Starts a trial, or continues with the licence key of the trial that was started before. */
export async function startTrial(on: Calling, planCode: string): Promise<void> {
  if (on.state.usable || isRevoked(on)) return
  if (on.held.licence.key !== null) return activateKey(on)
  if (isWaiting(on, 'token')) return
  const nonce = on.newNonce()
  const body = { plan_code: planCode, ...installationOf(on), nonce }
  const answer = await on.ask({ method: 'POST', path: `${appPath(on)}/trials`, body })
  recordTokenOutcome(on, 'start_trial', await receiveToken(on, answer, nonce, textIn(answer, 'licence_key')))
}

// Blanks, line breaks and invisible characters. NUL is not among them: the service refuses it.
const unseen = String.raw`\u0001-\u001F\u007F-\u009F\u2800\p{White_Space}\p{Default_Ignorable_Code_Point}`
const seen = new RegExp(`[^${unseen}]`, 'u')

/** Exchanges a legacy key for a licence key, once, and activates with that. */
export async function migrate(on: Calling, given: string): Promise<void> {
  const characters = Array.from(given)
  const [first, last] = [characters.findIndex(isSeen), characters.findLastIndex(isSeen)]
  const legacyKey = characters.slice(first, last + 1).join('')
  const { licence } = on.held
  const isExchanged = licence.legacyKey === legacyKey && licence.key !== null
  if (isExchanged ? !on.state.usable : await exchange(on, legacyKey)) await activateKey(on)
}

const isSeen = (character: string) => seen.test(character)

async function exchange(on: Calling, legacyKey: string): Promise<boolean> {
  if (isWaiting(on, 'token')) return false
  const body = { legacy_key: legacyKey }
  const answer = await on.ask({ method: 'POST', path: `${appPath(on)}/migrate`, body })
  const licenceKey = textIn(answer, 'key')
  if (licenceKey !== undefined) {
    on.apply({ kind: 'exchange', legacyKey, licenceKey })
    recordOutcome(on, 'migrate', 'token', null)
  }
  // A failed exchange does not change the licence held.
  else if (tokenOf(on.held)) recordOutcome(on, 'migrate', 'token', troubleOf('migrate', answer))
  else recordTokenOutcome(on, 'migrate', answer)
  return licenceKey !== undefined
}

/** Reads an offline licence file, without network. If the file is refused, the licence held stays. */
export async function activateOffline(on: Calling, text: unknown): Promise<void> {
  on.time()
  const { keys, licence, time } = on.held
  const current = tokenOf(on.held)?.claims ?? null
  const token = await readFile(text, on.identity, { keys, current, time, nonce: licence.nonce })
  if (!isString(token)) {
    accept(on, { ...token, floating: false, formerFingerprint: null }, licence.nonce)
    return recordProblem(on, 'activate_offline', null)
  }
  if (current === null) {
    on.apply({ kind: 'refusal', reason: null })
    on.record({ absence: token, failure: null })
  }
  recordProblem(on, 'activate_offline', { code: token, detail: FILE_REFUSALS[token] })
}

/** A check reads at most this many answers, about a million licences. The next check goes on from there. */
const MAX_ANSWERS = 64

/**
 * Reads the revocation list to its end: the additions since the current version, or the whole list. What was received
 * counts and is kept, also if a later answer fails. After a failure the current list stays, at most until the token ends.
 */
export async function check(on: Calling): Promise<void> {
  if (!tokenOf(on.held) || isRevoked(on) || isWaiting(on, 'list')) return
  let outcome = await readListFrom(on, revocationsOf(on.held).list?.version ?? null)
  // The service does not know the current version, or its list does not continue it: read the whole list.
  if (outcome === 'start_over') outcome = await readListFrom(on, null)
  recordOutcome(on, 'check', 'list', outcome === 'start_over' ? LIST_GAP : outcome)
}

type ListOutcome = 'start_over' | Trouble | null

const LIST_GAP: Trouble = {
  code: 'list_gap',
  detail: 'the list has a gap: it does not continue the stored one',
}

async function readListFrom(on: Calling, from: number | null): Promise<ListOutcome> {
  let since = from
  for (let answers = 0; answers < MAX_ANSWERS; answers++) {
    const outcome = await requestList(on, since)
    if (typeof outcome !== 'number') return outcome
    if (isRevoked(on)) return null
    since = outcome
  }
  return null
}

/** @returns the version from which the list goes on, or how reading it has ended */
async function requestList(on: Calling, since: number | null): Promise<ListOutcome | number> {
  const path = `${appPath(on)}/revocations${since === null ? '' : `?since=${since}`}`
  const current = revocationsOf(on.held).list
  // A 304 is not signed, so a list that has ended must be read again.
  const isConfirmable = current?.etagSince === since && on.time() < current.expiresAt
  const ifNoneMatch = isConfirmable ? current.etag : null
  const answer = await on.ask({ method: 'GET', path, ifNoneMatch })
  if (answer.kind === 'refusal' && answer.status === 422 && since !== null) return 'start_over'
  if (answer.kind !== 'success') return unexpected(answer)
  if (answer.status === 304 && ifNoneMatch !== null) {
    on.apply({ kind: 'list_unchanged' })
    return null
  }
  // Only the signed text is used; the other fields are for people.
  const jws = textIn(answer, 'signature')
  if (jws === undefined) return unexpected(answer)
  const list = await readSigned(on, on.time(), () => {
    const { keys } = on.held
    return keys && keys.expiresAt <= on.time() ? 'unknown_key' : readList(jws, keys, on.identity.appId)
  })
  if ('kind' in list) return list
  on.time()
  const acceptance = acceptanceOf(list, on.held)
  on.apply({ kind: 'list', list, etag: answer.etag, since })
  const { version, more } = list
  // The first answers of a whole list have lower versions than the current one.
  if (more && version > (since ?? -1) && (acceptance === 'accepted' || acceptance === 'list_outdated'))
    return version
  if (acceptance === 'accepted') return more ? unexpected(answer) : null
  if (acceptance === 'list_gap' && since !== null) return 'start_over'
  return { code: acceptance, detail: `version ${version} is expired, or not newer than the stored list` }
}

// Steps that the calls share

/** Reads the token of an answer to a request with `nonce`, and accepts it; null if it is valid. */
async function receiveToken(
  on: Calling,
  answer: Answer,
  nonce: string,
  licenceKey?: string,
): Promise<Answer | null> {
  if (answer.kind !== 'success') return answer
  const jws = textIn(answer, 'token')
  if (jws === undefined) return unexpected(answer)
  on.time()
  const time = timeFor(on.held.time, jws, nonce)
  const claims = await readSigned(on, time, () => readToken(jws, on.held.keys, on.identity, time))
  if ('kind' in claims) return claims
  const isOfAnswer =
    claims.activationId === textIn(answer, 'activation_id') &&
    claims.licenceId === textIn(answer, 'licence_id')
  if (!isOfAnswer) return failure('untrusted_signature', 'the token belongs to another activation')
  const floating = textIn(answer, 'lease_ends_at') !== undefined
  accept(on, { jws, claims, fileKeys: null, floating, formerFingerprint: null }, nonce, licenceKey)
  // Keys are renewed at half of their life, so that a start without the network has keys for a valid token. If this
  // fails, the token is accepted all the same.
  const { keys } = on.held
  if (keys && on.time() >= (keys.issuedAt + keys.expiresAt) / 2) await fetchKeys(on, time)
  return null
}

function accept(on: Calling, token: Token, nonce: string | null, licenceKey?: string): void {
  on.apply({ kind: 'token', token, nonce, licenceKey })
  on.record(withNewToken(on.attempts))
}

/** A text in the body of a success. */
function textIn(answer: Answer, name: string): string | undefined {
  const text = answer.kind === 'success' ? answer.body?.[name] : undefined
  return isString(text) ? text : undefined
}

/** Reads a signed text. If it is signed with an unknown key, the keys are fetched once, and checked at `time`. */
async function readSigned<T extends object>(
  on: Calling,
  time: number,
  read: () => Promise<T | Unreadable> | Unreadable,
): Promise<T | Failure> {
  let value = await read()
  if (value === 'unknown_key') {
    const problem = await fetchKeys(on, time)
    if (problem) return problem
    value = await read()
  }
  if (value === 'unsupported_runtime')
    return failure('unsupported_runtime', KEYS_REFUSALS.unsupported_runtime)
  return isString(value) ? failure('untrusted_signature', 'not signed by a key of this application') : value
}

/** Fetches the application's public keys and checks them at `time`; null on success. */
async function fetchKeys(on: Calling, time: number): Promise<Failure | null> {
  const answer = await on.ask({ method: 'GET', path: `${appPath(on)}/jwks.json` })
  if (answer.kind !== 'success') return unexpected(answer)
  const keys = await readKeys(answer.body, on.identity, on.held.keys, time)
  if (keys === 'unexpected_answer') return unexpected(answer)
  if (isString(keys)) return failure(keys, KEYS_REFUSALS[keys])
  on.apply({ kind: 'keys', keys })
  return null
}

const KEYS_REFUSALS = {
  untrusted_keys: 'the keys are not signed with a root key of this product',
  keys_expired: 'the signed keys are past their end, or the clock is ahead',
  keys_outdated: 'the signed keys are older than those held',
  unsupported_runtime: FILE_REFUSALS.unsupported_runtime,
}

/** Records a try to get a token: success (null), a refusal, or a failure. */
function recordTokenOutcome(on: Calling, operation: TokenOperation, problem: Answer | null): void {
  if (!problem) {
    const claims = tokenOf(on.held)?.claims
    // If the new token is due for renewal already, another call would bring no better token, so the next one waits.
    return recordOutcome(on, operation, 'token', null, claims && on.time() >= claims.refreshAfter)
  }
  const reason = refusalIn(operation, problem)
  if (reason !== null) on.apply({ kind: 'refusal', reason })
  on.record({ failure: reason === null ? unexpected(problem).code : null })
  recordOutcome(on, operation, 'token', troubleOf(operation, problem))
}

function troubleOf(operation: TokenOperation, answer: Answer): Trouble {
  const code = refusalIn(operation, answer)
  return code !== null && answer.kind === 'refusal' ? { code, detail: answer.detail } : unexpected(answer)
}

/** Records how an operation ended, and when the next try of its kind may be. */
function recordOutcome(
  on: Calling,
  operation: Operation,
  kind: Kind,
  trouble: Trouble | null,
  waits = trouble !== null,
): void {
  recordProblem(on, operation, trouble)
  const claims = tokenOf(on.held)?.claims
  // A token of a short lease needs several tries between half of its life and its end.
  const maxMs =
    claims && (kind === 'list' ? claims.checkIntervalMs : (claims.expiresAt - claims.issuedAt) / 8)
  const { backoff } = on.attempts
  const next = afterFailure(backoff[kind], on.time(), trouble?.retryAfterMs ?? null, maxMs)
  on.record({ backoff: { ...backoff, [kind]: waits ? next : NO_BACKOFF } })
}

function recordProblem(on: Calling, operation: Operation, trouble: Trouble | null): void {
  on.record(withProblem(on.attempts, operation, trouble, on.time()))
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

function isRevoked({ held }: Calling): boolean {
  return revocationsOf(held).namedBy !== null
}

function appPath({ identity }: Calling): string {
  return `/v1/apps/${encodeURIComponent(identity.appId)}`
}
