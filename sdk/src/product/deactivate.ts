import { troubleOf, type Contact } from './contact.ts'

/** Frees the place at the service's, and then forgets the token. */
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
