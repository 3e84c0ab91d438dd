import type { Logger } from '@licensing/process/log'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { decrypt } from '@licensing/database/encryption'
import type { EndpointSettings } from './endpoint-state.ts'

const mostKept = 20_000

/** The newest settings of endpoints that this process has heard of, whatever order it heard them in. */
export class EndpointBook {
  readonly #keys: EncryptionKeys
  readonly #log: Logger
  readonly #known = new Map<string, EndpointSettings>()
  /** A disabled endpoint stays disabled. */
  readonly #closed = new Set<string>()
  readonly #unreadable = new Set<string>()

  constructor(keys: EncryptionKeys, log: Logger) {
    this.#keys = keys
    this.#log = log
  }

  /**
   * Null where nothing can be sent: the endpoint has been disabled, or its secret cannot be decrypted. In the second
   * case what waits for it goes on waiting.
   */
  open(row: EndpointRow): EndpointSettings | null {
    if (this.#closed.has(row.id)) return null
    const known = this.#known.get(row.id)
    if (known && known.generation >= row.generation) return known
    try {
      const secret = decrypt(row.encrypted_secret, row.id, this.#keys)
      const { id, account_id: accountId, url, generation } = row
      const settings = { id, accountId, url, secret, generation }
      this.#known.delete(row.id)
      this.#known.set(row.id, settings)
      forgetOldest(this.#known)
      return settings
    } catch (error) {
      if (!this.#unreadable.has(row.id)) {
        this.#log.error({ err: error, endpoint_id: row.id }, 'the secret of an endpoint cannot be decrypted')
      }
      this.#unreadable.add(row.id)
      forgetOldest(this.#unreadable)
      return null
    }
  }

  close(endpointId: string): void {
    this.#known.delete(endpointId)
    this.#closed.add(endpointId)
    forgetOldest(this.#closed)
  }
}

function forgetOldest(known: Map<string, unknown> | Set<string>): void {
  const [oldest] = known.keys()
  if (known.size > mostKept && oldest !== undefined) known.delete(oldest)
}
