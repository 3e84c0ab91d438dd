import type { Contact } from './contact.ts'
import type { FileRefusal } from './state.ts'

/** Reads an offline licence file. No network in it. A file that is refused withdraws nothing. */
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
  untrusted_keys: 'no root key of this product vouches for the file',
  untrusted_signature: 'the token is not signed by a key of the file',
  unsupported_runtime: 'Web Crypto of this runtime does not support Ed25519',
}
