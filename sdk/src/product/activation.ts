import { trimUnseen } from './licence-key.ts'
import { refusalIn, problemOf, type OperationContext } from './operation-context.ts'
import type { Answer } from './service.ts'
import { isObject, isString } from './shape.ts'
import type { FileRefusal } from './state.ts'

/** Activates the licence key, and receives a token. */
export async function activate(context: OperationContext, signal: AbortSignal): Promise<void> {
  if (context.installation.licenceKey === null) {
    context.installation.recordMissingKey()
    return
  }
  if (context.isBlocked('token')) return
  const nonce = context.installation.newNonce()
  let answer = await requestToken(context, nonce, signal)
  const refusal = refusalIn('activate', answer)
  const isFull = refusal === 'limit_reached' || refusal === 'no_place' || refusal === 'quota_exceeded'
  if (isFull && (await freeFormerSlot(context, signal))) {
    answer = await requestToken(context, nonce, signal)
  }
  const problem = await context.receiveToken(answer, nonce, signal)
  // If the vendor has given the licence another key, the activation and its expired token can still be renewed.
  const isRenewed = refusal === 'unknown_licence_key' && (await renewToken(context, signal)) === null
  context.recordTokenOutcome('activate', isRenewed ? null : problem)
}

function requestToken(context: OperationContext, nonce: string, signal: AbortSignal): Promise<Answer> {
  const { fingerprint, host, productVersion } = context.product
  const licenceKey = context.installation.licenceKey
  const body = { licence_key: licenceKey, fingerprint, host, product_version: productVersion, nonce }
  return context.ask({ method: 'POST', path: '/v1/activations', body }, signal)
}

/** Frees the activation that this machine has under an earlier fingerprint. False if there is none or it cannot be freed. */
async function freeFormerSlot(context: OperationContext, signal: AbortSignal): Promise<boolean> {
  const former = context.installation.former?.token
  if (!former) return false
  const path = `/v1/activations/${encodeURIComponent(former.claims.activationId)}`
  const answer = await context.ask({ method: 'DELETE', path, token: former.jws }, signal)
  return answer.kind === 'success' || (answer.kind === 'refusal' && answer.status === 404)
}

/** Requests a new token for the activation. */
export async function refresh(context: OperationContext, signal: AbortSignal): Promise<void> {
  const { installation } = context
  if (installation.isOfflineNow || installation.revoked || context.isBlocked('token')) return
  const problem = await renewToken(context, signal)
  if (problem === 'no_token') return
  const refusal = problem && refusalIn('refresh', problem)
  const needsActivation = refusal === 'token_rejected' || refusal === 'activation_freed'
  // The activation was freed, or its token is too old. If there is a licence key, it is activated again.
  if (needsActivation && installation.licenceKey !== null) await activate(context, signal)
  else context.recordTokenOutcome('refresh', problem)
}

/** Replaces the token by a new one of its activation; null if that worked. */
async function renewToken(
  context: OperationContext,
  signal: AbortSignal,
): Promise<Answer | 'no_token' | null> {
  const { installation, product } = context
  const { token } = installation
  if (!token) return 'no_token'
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}/refresh`
  const nonce = installation.newNonce()
  const body = { product_version: product.productVersion, host: product.host, nonce }
  const answer = await context.ask({ method: 'POST', path, body, token: token.jws }, signal)
  return context.receiveToken(answer, nonce, signal)
}

/** Tells the service that this installation is in use, whatever the licence's status. */
export async function callHome(context: OperationContext, signal: AbortSignal): Promise<void> {
  const { installation, product } = context
  const { token } = installation
  if (!token || context.isBlocked('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}/call-home`
  const body = { product_version: product.productVersion, host: product.host }
  const answer = await context.ask({ method: 'POST', path, body, token: token.jws }, signal)
  installation.recordProblem(
    'call_home',
    answer.kind === 'success' ? null : { code: problemOf(answer).code, detail: problemOf(answer).detail },
  )
}

/**
 * Ends the lease of a floating licence at the service, and then the use of the token. The activation stays. Nothing changes on
 * another licence, or if the token came in a file.
 */
export async function release(context: OperationContext, signal: AbortSignal): Promise<void> {
  const { installation } = context
  const { token } = installation
  if (!token || installation.isOfflineNow || context.isBlocked('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}/release`
  const answer = await context.ask({ method: 'POST', path, token: token.jws }, signal)
  const isReleased = answer.kind === 'success' || (answer.kind === 'refusal' && answer.status === 404)
  if (isReleased && token.floating) installation.recordRelease()
  context.recordOutcome('release', 'token', isReleased ? null : problemOf(answer))
}

/** Frees the place at the service, then deletes the token. */
export async function deactivate(context: OperationContext, signal: AbortSignal): Promise<void> {
  const { installation } = context
  const { token } = installation
  if (!token || context.isBlocked('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}`
  const answer = await context.ask({ method: 'DELETE', path, token: token.jws }, signal)
  const isFree = answer.kind === 'success' || (answer.kind === 'refusal' && answer.status === 404)
  if (isFree) installation.recordDeactivation()
  context.recordOutcome('deactivate', 'token', isFree ? null : problemOf(answer))
}

/** Starts a trial, or continues with the licence key of the trial that was started before. */
export async function startTrial(
  context: OperationContext,
  planCode: string,
  signal: AbortSignal,
): Promise<void> {
  const { installation } = context
  if (installation.licenceKey !== null) return activate(context, signal)
  if (context.isBlocked('token')) return
  const { appId, fingerprint, host, productVersion } = context.product
  const nonce = installation.newNonce()
  const path = `/v1/apps/${encodeURIComponent(appId)}/trials`
  const body = { plan_code: planCode, fingerprint, host, product_version: productVersion, nonce }
  const answer = await context.ask({ method: 'POST', path, body }, signal)
  const problem = await context.receiveToken(answer, nonce, signal)
  if (
    !problem &&
    answer.kind === 'success' &&
    isObject(answer.body) &&
    isString(answer.body['licence_key'])
  ) {
    installation.recordTrial(answer.body['licence_key'])
  }
  context.recordTokenOutcome('start_trial', problem)
}

/** Exchanges a legacy key for a licence key, once, and activates with that. */
export async function migrate(context: OperationContext, given: string, signal: AbortSignal): Promise<void> {
  const { installation } = context
  const legacyKey = trimUnseen(given)
  const alreadyExchanged = installation.legacyKey === legacyKey && installation.licenceKey !== null
  if (!alreadyExchanged && !(await exchange(context, legacyKey, signal))) return
  if (!alreadyExchanged || !installation.state().usable) await activate(context, signal)
}

async function exchange(context: OperationContext, legacyKey: string, signal: AbortSignal): Promise<boolean> {
  const { installation, product } = context
  if (context.isBlocked('token')) return false
  const path = `/v1/apps/${encodeURIComponent(product.appId)}/migrate`
  const answer = await context.ask({ method: 'POST', path, body: { legacy_key: legacyKey } }, signal)
  if (answer.kind === 'success' && isObject(answer.body) && isString(answer.body['key'])) {
    installation.recordMigration(legacyKey, answer.body['key'])
    context.recordOutcome('migrate', 'token', null)
    return true
  }
  // A failed exchange does not change the licence held.
  if (!installation.token) context.recordTokenOutcome('migrate', answer)
  else {
    const refusal = refusalIn('migrate', answer)
    context.recordOutcome(
      'migrate',
      'token',
      refusal ? { code: refusal, detail: legacyKey } : problemOf(answer),
    )
  }
  return false
}

/** Reads an offline licence file, without network. If the file is refused, the licence held stays. */
export async function activateOffline({ installation }: OperationContext, text: unknown): Promise<void> {
  const token = await installation.readFile(text)
  if (typeof token !== 'string') {
    installation.acceptFile(token)
    installation.recordProblem('activate_offline', null)
    return
  }
  installation.recordFileRefusal(token)
  installation.recordProblem('activate_offline', { code: token, detail: DETAIL[token] })
}

const DETAIL: Record<FileRefusal, string> = {
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
