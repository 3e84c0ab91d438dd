import { refusalIn, type Contact } from './contact.ts'
import type { Answer } from './service.ts'

/** Asks for an activation of the licence key held, and its token. */
export async function activate(contact: Contact, signal: AbortSignal): Promise<void> {
  if (contact.installation.licenceKey === null) {
    contact.installation.lacksKey()
    return
  }
  if (contact.isClosed('token')) return
  const nonce = contact.installation.newNonce()
  let answer = await request(contact, nonce, signal)
  const refusal = refusalIn('activate', answer)
  const isFull = refusal === 'limit_reached' || refusal === 'quota_exceeded'
  if (isFull && (await freeFormerPlace(contact, signal))) {
    answer = await request(contact, nonce, signal)
  }
  contact.conclude('activate', await contact.receiveToken(answer, nonce, signal))
}

function request(contact: Contact, nonce: string, signal: AbortSignal): Promise<Answer> {
  const { fingerprint, host, productVersion } = contact.product
  const licenceKey = contact.installation.licenceKey
  const body = { licence_key: licenceKey, fingerprint, host, product_version: productVersion, nonce }
  return contact.ask({ method: 'POST', path: '/v1/activations', body }, signal)
}

/** The same machine under an earlier fingerprint gives its place to the present one. */
async function freeFormerPlace(contact: Contact, signal: AbortSignal): Promise<boolean> {
  const former = contact.installation.former?.token
  if (!former) return false
  const path = `/v1/activations/${encodeURIComponent(former.claims.activationId)}`
  const answer = await contact.ask({ method: 'DELETE', path, token: former.jws }, signal)
  return answer.kind === 'good' || (answer.kind === 'no' && answer.status === 404)
}
