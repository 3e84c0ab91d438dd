import { generateKeyPairSync, randomUUID, sign, type KeyObject } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

interface Reply {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

interface Signer {
  readonly kid: string
  readonly key: KeyObject
  readonly x: string
}

/** The product endpoints over HTTP, with keys and data of one application in memory. */
export class LicensingServer implements AsyncDisposable {
  readonly appId = 'app_01kahz5k00e000000000000001'
  readonly requests: string[] = []
  tokenLifeSeconds = 86_400
  status = 'active'
  /** If set, the licences are floating, and have this many leases together. */
  maxConcurrent: number | null = null
  /** If set, it answers instead of the service: an answer, or a function that writes one. */
  instead: Reply | ((request: IncomingMessage, response: ServerResponse) => void) | null = null
  readonly #licences = new Map<string, string>()
  readonly #activations = new Map<string, { licenceId: string; fingerprint: string }>()
  /** The activations that hold a lease. */
  readonly #leases = new Set<string>()
  readonly #revoked: string[] = []
  readonly #root = newSigner()
  /** The root key that products of this application have compiled in. */
  readonly rootKey = `lrk_${this.#root.x}`
  readonly #signers: Signer[] = []
  readonly #server = createServer((request, response) => {
    if (typeof this.instead === 'function') {
      this.requests.push(`${request.method} ${request.url}`)
      return this.instead(request, response)
    }
    void this.#reply(request).then(({ status, body, headers }) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers })
      response.end(body === undefined ? undefined : JSON.stringify(body))
    })
  })

  static async start(): Promise<LicensingServer> {
    const server = new LicensingServer()
    server.rotateKey()
    await server.listen(0)
    return server
  }

  /** Starts the server, again on the same port if it ran before. */
  async listen(port = this.port): Promise<void> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.port = (this.#server.address() as AddressInfo).port
  }

  port = 0

  get baseUrl(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async close(): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.close()
  }

  issue(): string {
    const key = randomUUID().toUpperCase()
    this.#licences.set(key, `lic_${randomUUID()}`)
    return key
  }

  revoke(key: string): void {
    this.#revoked.push(this.#licences.get(key) ?? '')
    this.status = 'revoked'
  }

  rotateKey(): void {
    this.#signers.push(newSigner())
  }

  get activations(): number {
    return this.#activations.size
  }

  async #reply(request: IncomingMessage): Promise<Reply> {
    const { pathname, searchParams } = new URL(request.url ?? '', this.baseUrl)
    this.requests.push(`${request.method} ${pathname}`)
    const sent = await text(request)
    const body = sent === '' ? {} : (JSON.parse(sent) as Record<string, string>)
    if (this.instead && typeof this.instead !== 'function') return this.instead
    const [, , collection, id = '', action] = pathname.split('/')
    switch (`${request.method} ${collection} ${action ?? ''}`) {
      case 'POST activations ':
        return this.#activate(body)
      case 'POST activations refresh':
        return this.#refuse() ?? this.#grant(200, id, body['nonce'])
      case 'POST activations release':
        return this.#leases.delete(id) ? { status: 204 } : problem(404, 'not_found')
      case 'DELETE activations ':
        return this.#activations.delete(id) ? { status: 204 } : problem(404, 'not_found')
      case 'POST apps trials':
        return this.#startTrial(body)
      case 'GET apps revocations':
        return this.#revocations(searchParams.get('since'), request.headers['if-none-match'])
      case 'GET apps jwks.json':
        return { status: 200, body: this.#keySet() }
      default:
        return problem(404, 'not_found')
    }
  }

  #activate({ licence_key: key = '', fingerprint = '', nonce }: Record<string, string>): Reply {
    const licenceId = this.#licences.get(key)
    if (!licenceId) return problem(404, 'not_found')
    const refusal = this.#refuse()
    if (refusal) return refusal
    const known = [...this.#activations].find(([, entry]) => entry.fingerprint === fingerprint)
    if (known) return this.#grant(200, known[0], nonce)
    const id = `act_${randomUUID()}`
    this.#activations.set(id, { licenceId, fingerprint })
    return this.#grant(201, id, nonce)
  }

  #startTrial(body: Record<string, string>): Reply {
    const licence_key = this.issue()
    const { status, body: grant } = this.#activate({ ...body, licence_key })
    return { status, body: { ...(grant as object), licence_key } }
  }

  #refuse(): Reply | null {
    if (this.status === 'active' || this.status === 'downgraded') return null
    return problem(403, 'licence_refused', { reason: this.status })
  }

  /** Answers with a token, and on a floating licence with a lease, if there is one. */
  #grant(status: number, activationId: string, nonce: string | undefined): Reply {
    if (this.maxConcurrent !== null && !this.#leases.has(activationId)) {
      if (this.#leases.size >= this.maxConcurrent)
        return problem(409, 'limit_reached', { reason: 'max_concurrent' })
      this.#leases.add(activationId)
    }
    return { status, body: this.#token(activationId, nonce) }
  }

  #token(activationId: string, nonce: string | undefined) {
    const licenceId = this.#activations.get(activationId)?.licenceId
    const iat = Math.floor(Date.now() / 1000)
    const token = this.#sign({
      sub: licenceId,
      aud: this.appId,
      act: activationId,
      iat,
      exp: iat + this.tokenLifeSeconds,
      chk: 900,
      plan_id: 'pln_1',
      status: this.status,
      seats: null,
      entitlements: { export_pdf: 'true', max_projects: '25' },
      nonce,
    })
    const lease_ends_at = new Date((iat + this.tokenLifeSeconds) * 1000).toISOString()
    return {
      activation_id: activationId,
      licence_id: licenceId,
      token,
      ...(this.maxConcurrent !== null && { lease_ends_at }),
    }
  }

  #revocations(since: string | null, ifNoneMatch: string | undefined): Reply {
    const version = this.#revoked.length
    const etag = `"${since}-${version}"`
    if (ifNoneMatch === etag) return { status: 304, headers: { etag } }
    const revoked = this.#revoked.slice(Number(since ?? 0))
    const iat = Math.floor(Date.now() / 1000)
    const list = { app_id: this.appId, version, since: since === null ? null : Number(since), revoked }
    return {
      status: 200,
      headers: { etag },
      body: { version, revoked, signature: this.#sign({ ...list, iat, exp: iat + 86_400 }) },
    }
  }

  #keySet() {
    const keys = this.#signers.map(publicKey)
    const iat = Math.floor(Date.now() / 1000)
    const claims = { app_id: this.appId, keys, iat, exp: iat + 30 * 86_400 }
    return { keys, signed: [this.#sign(claims, { ...this.#root, kid: this.rootKey })] }
  }

  #sign(payload: object, signer = this.#signers.at(-1)): string {
    if (!signer) throw new Error('no key')
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const input = `${part({ alg: 'EdDSA', kid: signer.kid })}.${part(payload)}`
    return `${input}.${sign(null, Buffer.from(input), signer.key).toString('base64url')}`
  }
}

function newSigner(): Signer {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = privateKey.export({ format: 'jwk' })
  return { kid: randomUUID(), key: privateKey, x }
}

function publicKey({ kid, x }: { kid: string; x: string }) {
  return { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', kid, x }
}

function problem(status: number, code: string, more: object = {}): Reply {
  const headers = { 'content-type': 'application/problem+json' }
  return { status, headers, body: { type: `/errors/${code}`, status, code, detail: code, ...more } }
}
