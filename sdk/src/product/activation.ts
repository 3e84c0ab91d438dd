import { refusalIn, troubleOf, type Contact } from './contact.ts'
import type { Answer } from './service.ts'
import { isObject, isString } from './shape.ts'
import type { FileRefusal } from './state.ts'

/** Activates the licence key, and receives a token. */
export async function activate(contact: Contact, signal: AbortSignal): Promise<void> {
  if (contact.installation.licenceKey === null) {
    contact.installation.lacksKey()
    return
  }
  if (contact.isClosed('token')) return
  const nonce = contact.installation.newNonce()
  let answer = await requestToken(contact, nonce, signal)
  const refusal = refusalIn('activate', answer)
  const isFull = refusal === 'limit_reached' || refusal === 'no_place' || refusal === 'quota_exceeded'
  if (isFull && (await freeFormerPlace(contact, signal))) {
    answer = await requestToken(contact, nonce, signal)
  }
  contact.conclude('activate', await contact.receiveToken(answer, nonce, signal))
}

function requestToken(contact: Contact, nonce: string, signal: AbortSignal): Promise<Answer> {
  const { fingerprint, host, productVersion } = contact.product
  const licenceKey = contact.installation.licenceKey
  const body = { licence_key: licenceKey, fingerprint, host, product_version: productVersion, nonce }
  return contact.ask({ method: 'POST', path: '/v1/activations', body }, signal)
}

/** Frees the activation that this machine has under an earlier fingerprint. False if there is none or it cannot be freed. */
async function freeFormerPlace(contact: Contact, signal: AbortSignal): Promise<boolean> {
  const former = contact.installation.former?.token
  if (!former) return false
  const path = `/v1/activations/${encodeURIComponent(former.claims.activationId)}`
  const answer = await contact.ask({ method: 'DELETE', path, token: former.jws }, signal)
  return answer.kind === 'good' || (answer.kind === 'no' && answer.status === 404)
}

/** Requests a new token for the activation. */
export async function refresh(contact: Contact, signal: AbortSignal): Promise<void> {
  const { installation, product } = contact
  const { token } = installation
  if (!token || installation.isOfflineNow || installation.revoked || contact.isClosed('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}/refresh`
  const nonce = installation.newNonce()
  const body = { product_version: product.productVersion, host: product.host, nonce }
  const answer = await contact.ask({ method: 'POST', path, body, token: token.jws }, signal)
  const trouble = await contact.receiveToken(answer, nonce, signal)
  const refusal = trouble && refusalIn('refresh', trouble)
  const needsActivation = refusal === 'token_rejected' || refusal === 'activation_freed'
  // The activation was freed, or its token is too old. If there is a licence key, it is activated again.
  if (needsActivation && installation.licenceKey !== null) await activate(contact, signal)
  else contact.conclude('refresh', trouble)
}

/** Tells the service that this installation is in use, whatever the licence's status. */
export async function callHome(contact: Contact, signal: AbortSignal): Promise<void> {
  const { installation, product } = contact
  const { token } = installation
  if (!token || contact.isClosed('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}/call-home`
  const body = { product_version: product.productVersion, host: product.host }
  const answer = await contact.ask({ method: 'POST', path, body, token: token.jws }, signal)
  installation.note(
    'call_home',
    answer.kind === 'good' ? null : { code: troubleOf(answer).code, detail: troubleOf(answer).detail },
  )
}

/**
 * Ends the lease of a floating licence at the service, and then the use of the token. The activation stays. Nothing changes on
 * another licence, or if the token came in a file.
 */
export async function release(contact: Contact, signal: AbortSignal): Promise<void> {
  const { installation } = contact
  const { token } = installation
  if (!token || installation.isOfflineNow || contact.isClosed('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}/release`
  const answer = await contact.ask({ method: 'POST', path, token: token.jws }, signal)
  const isReleased = answer.kind === 'good' || (answer.kind === 'no' && answer.status === 404)
  if (isReleased && token.floating) installation.released()
  contact.settle('release', 'token', isReleased ? null : troubleOf(answer))
}

/** Frees the place at the service, then deletes the token. */
export async function deactivate(contact: Contact, signal: AbortSignal): Promise<void> {
  const { installation } = contact
  const { token } = installation
  if (!token || contact.isClosed('token')) return
  const path = `/v1/activations/${encodeURIComponent(token.claims.activationId)}`
  const answer = await contact.ask({ method: 'DELETE', path, token: token.jws }, signal)
  const isFree = answer.kind === 'good' || (answer.kind === 'no' && answer.status === 404)
  if (isFree) installation.deactivated()
  contact.settle('deactivate', 'token', isFree ? null : troubleOf(answer))
}

/** Starts a trial, or continues with the licence key of the trial that was started before. */
export async function startTrial(contact: Contact, planCode: string, signal: AbortSignal): Promise<void> {
  const { installation } = contact
  if (installation.licenceKey !== null) return activate(contact, signal)
  if (contact.isClosed('token')) return
  const { appId, fingerprint, host, productVersion } = contact.product
  const nonce = installation.newNonce()
  const path = `/v1/apps/${encodeURIComponent(appId)}/trials`
  const body = { plan_code: planCode, fingerprint, host, product_version: productVersion, nonce }
  const answer = await contact.ask({ method: 'POST', path, body }, signal)
  const trouble = await contact.receiveToken(answer, nonce, signal)
  if (!trouble && answer.kind === 'good' && isObject(answer.body) && isString(answer.body['licence_key'])) {
    installation.startedTrial(answer.body['licence_key'])
  }
  contact.conclude('start_trial', trouble)
}

/** Exchanges a legacy key for a licence key, once, and activates with that. */
export async function migrate(contact: Contact, legacyKey: string, signal: AbortSignal): Promise<void> {
  const { installation } = contact
  const alreadyExchanged = installation.legacyKey === legacyKey && installation.licenceKey !== null
  if (!alreadyExchanged && !(await exchange(contact, legacyKey, signal))) return
  if (!alreadyExchanged || !installation.state().usable) await activate(contact, signal)
}

async function exchange(contact: Contact, legacyKey: string, signal: AbortSignal): Promise<boolean> {
  const { installation, product } = contact
  if (contact.isClosed('token')) return false
  const path = `/v1/apps/${encodeURIComponent(product.appId)}/migrate`
  const answer = await contact.ask({ method: 'POST', path, body: { legacy_key: legacyKey } }, signal)
  if (answer.kind === 'good' && isObject(answer.body) && isString(answer.body['key'])) {
    installation.migrated(legacyKey, answer.body['key'])
    contact.settle('migrate', 'token', null)
    return true
  }
  // A failed exchange does not change the licence held.
  if (!installation.token) contact.conclude('migrate', answer)
  else {
    const refusal = refusalIn('migrate', answer)
    contact.settle('migrate', 'token', refusal ? { code: refusal, detail: legacyKey } : troubleOf(answer))
  }
  return false
}

/** Reads an offline licence file, without network. If the file is refused, the licence held stays. */
export async function activateOffline({ installation }: Contact, text: unknown): Promise<void> {
  const token = await installation.readFile(text)
  if (typeof token !== 'string') {
    installation.acceptFile(token)
    installation.note('activate_offline', null)
    return
  }
  installation.refuseFile(token)
  installation.note('activate_offline', { code: token, detail: DETAIL[token] })
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
