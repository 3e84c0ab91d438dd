import { activate } from './activate.ts'
import { refusalIn, troubleOf, type Contact } from './contact.ts'
import { isObject, isString } from './shape.ts'

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
  // A licence that is held is not touched by an exchange that came to nothing.
  if (!installation.token) contact.conclude('migrate', answer)
  else {
    const refusal = refusalIn('migrate', answer)
    contact.settle('migrate', 'token', refusal ? { code: refusal, detail: legacyKey } : troubleOf(answer))
  }
  return false
}
