import { activate } from './activate.ts'
import { refusalIn, type Contact } from './contact.ts'

/** Asks for a new token for the activation held. */
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
  const startAnew = refusal === 'token_rejected' || refusal === 'activation_freed'
  // The activation is gone, or its token too old to be known: the key, where there is one, decides.
  if (startAnew && installation.licenceKey !== null) await activate(contact, signal)
  else contact.conclude('refresh', trouble)
}
