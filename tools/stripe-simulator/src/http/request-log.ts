import type { Owner } from '../world/collection.ts'

export type LoggedRequest = {
  request_id: string
  method: string
  path: string
  account: Owner
  idempotency_key: string | null
  replayed: boolean
  fault: string | null
  /** Null until the call is answered. It stays null if a fault withheld the answer. */
  status: number | null
}

const kept = 1000

/** The latest API calls, for tests. */
export class RequestLog {
  #requests: LoggedRequest[] = []

  add(request: LoggedRequest): LoggedRequest {
    this.#requests.push(request)
    if (this.#requests.length > kept * 2) this.#requests = this.#requests.slice(-kept)
    return request
  }

  list(): LoggedRequest[] {
    return this.#requests.slice(-kept)
  }

  clear(): void {
    this.#requests = []
  }
}
