import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isOverTls, refuseForeignOrigin } from './own-origin.ts'
import { openSession, sealSession, sessionSeconds } from './session-seal.ts'
import type { SessionKeys } from './session-seal.ts'

// A browser takes a cookie with this prefix only over TLS and only from this very host, not from one beside it.
const names = { tls: '__Host-portal_session', plain: 'portal_session' } as const

/** The portal’s sessions: a sealed cookie stands for the API key that signed in. The gateway keeps nothing of them. */
export class Sessions {
  readonly #keys: SessionKeys | undefined
  readonly #publicUrl: string | undefined

  /** @param keys undefined: nobody can sign in, and cookies are ignored */
  constructor(keys: SessionKeys | undefined, publicUrl: string | undefined) {
    this.#keys = keys
    this.#publicUrl = publicUrl
  }

  /**
   * The hash of the API key that a request's session stands for. A page of another origin can neither send the header
   * unasked nor name this origin; `Authorization` has precedence.
   *
   * @returns base64; undefined where no session is used, or its cookie is not valid any more
   * @throws ServiceError `origin_refused`
   */
  keyHashOf(request: FastifyRequest): string | undefined {
    const { authorization, 'x-requested-with': requestedWith } = request.headers
    if (authorization !== undefined || requestedWith !== 'portal') return undefined
    const cookie = cookieOf(request, this.#nameFor(request))
    if (cookie === undefined) return undefined
    refuseForeignOrigin(request, this.#publicUrl)
    return this.#keys && openSession(cookie, Date.now(), this.#keys)
  }

  /** @param keyHash base64 */
  begin(request: FastifyRequest, reply: FastifyReply, keyHash: string): void {
    this.#setCookie(request, reply, sealSession(keyHash, Date.now(), this.requireKeys()), sessionSeconds)
  }

  end(request: FastifyRequest, reply: FastifyReply): void {
    this.#setCookie(request, reply, '', 0)
  }

  refuseForeignOrigin(request: FastifyRequest): void {
    refuseForeignOrigin(request, this.#publicUrl)
  }

  /** @throws ServiceError `unavailable` where nobody can sign in */
  requireKeys(): SessionKeys {
    if (this.#keys) return this.#keys
    throw new ServiceError(
      'unavailable',
      'nobody can sign in here: the operator has to set PORTAL_SESSION_KEY, the same on all replicas of the gateway',
    )
  }

  #nameFor(request: FastifyRequest): string {
    return isOverTls(request, this.#publicUrl) ? names.tls : names.plain
  }

  #setCookie(request: FastifyRequest, reply: FastifyReply, value: string, maxAgeSeconds: number): void {
    const name = this.#nameFor(request)
    const attributes = ['Path=/', `Max-Age=${maxAgeSeconds}`, 'HttpOnly', 'SameSite=Strict']
    if (name === names.tls) attributes.push('Secure')
    reply.header('set-cookie', [`${name}=${value}`, ...attributes].join('; '))
  }
}

function cookieOf({ headers }: FastifyRequest, name: string): string | undefined {
  for (const pair of headers.cookie?.split(';') ?? []) {
    const trimmed = pair.trim()
    if (trimmed.startsWith(`${name}=`)) return trimmed.slice(name.length + 1)
  }
  return undefined
}
