import { troubleOf, type Contact } from './contact.ts'

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
