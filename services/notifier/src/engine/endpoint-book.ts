import type { Logger } from '@licensing/process/log'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { EncryptionKeys } from '../signing/secret.ts'
import { decryptSecret } from '../signing/secret.ts'
import type { EndpointSettings } from './endpoint-state.ts'

const mostKept = 20_000

/** Settings of endpoints, so that a secret is decrypted once for each generation of its endpoint. */
export class EndpointBook {
  readonly #keys: EncryptionKeys
  readonly #log: Logger
  readonly #known = new Map<string, EndpointSettings>()
  readonly #unreadable = new Set<string>()

  constructor(keys: EncryptionKeys, log: Logger) {
    this.#keys = keys
    this.#log = log
  }

  /** Null where the secret cannot be decrypted: then nothing can be sent, and what waits goes on waiting. */
  open(row: EndpointRow): EndpointSettings | null {
    const known = this.#known.get(row.id)
    if (known && known.generation >= row.generation) return known
    try {
      const secret = decryptSecret(row.encryptedSecret, row.id, this.#keys)
      const settings = { id: row.id, url: row.url, secret, generation: row.generation }
      this.#known.delete(row.id)
      this.#known.set(row.id, settings)
      const [oldest] = this.#known.keys()
      if (this.#known.size > mostKept && oldest !== undefined) this.#known.delete(oldest)
      return settings
    } catch (error) {
      if (!this.#unreadable.has(row.id))
        this.#log.error({ err: error, endpoint_id: row.id }, 'the secret of an endpoint cannot be decrypted')
      this.#unreadable.add(row.id)
      return null
    }
  }

  forget(endpointId: string): void {
    this.#known.delete(endpointId)
  }
}
