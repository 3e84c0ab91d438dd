import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { openSession, sealSession, sessionSeconds } from './session-seal.ts'
import type { SessionKeys } from './session-seal.ts'

// A browser takes a cookie with this prefix only over TLS and only from this very host, not from one beside it.
const names = { tls: '__Host-portal_session', plain: 'portal_session' } as const

/** Sessions of the portal: an encrypted cookie contains the hash of the API key. The gateway stores no sessions. */
export class Sessions {
  readonly #keys: SessionKeys | undefined
  readonly #publicUrl: string | undefined

  /** @param keys undefined: nobody can sign in, and cookies are ignored */
  constructor(keys: SessionKeys | undefined, publicUrl: string | undefined) {
    this.#keys = keys
    this.#publicUrl = publicUrl
  }

  /**
   * The hash of the API key in the session of a request. A page of another origin can neither send the header
   * unasked nor name this origin; `Authorization` has precedence.
   *
   * @returns base64; undefined if the request has no session or its cookie is no longer valid
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

  /** @throws ServiceError `unavailable` if nobody can sign in */
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

/**
 * Whether the browser talks to the gateway over TLS. A proxy that ends TLS and says nothing of it is known by
 * PUBLIC_URL.
 */
export function isOverTls(request: FastifyRequest, publicUrl: string | undefined): boolean {
  if (request.protocol === 'https') return true
  const known = URL.parse(publicUrl ?? '')
  return known?.protocol === 'https:' && known.host === hostOf(request, known.protocol)
}

/** Refuses what a page of another origin sent: decisions, section 12. A caller that is no browser sends no origin. */
function refuseForeignOrigin(request: FastifyRequest, publicUrl: string | undefined): void {
  if (isOfOwnPage(request, publicUrl)) return
  throw new ServiceError(
    'origin_refused',
    'the portal’s session works only from the gateway’s own pages; send an API key in Authorization, or have PUBLIC_URL name the address that the browser shows',
  )
}

/** Whether no page of another origin sent it. */
export function isOfOwnPage(request: FastifyRequest, publicUrl: string | undefined): boolean {
  const { origin } = request.headers
  return origin === undefined || isOwnOrigin(origin, request, publicUrl)
}

function isOwnOrigin(origin: string, request: FastifyRequest, publicUrl: string | undefined): boolean {
  const from = URL.parse(origin)
  if (from?.origin !== origin || !/^https?:$/.test(from.protocol)) return false
  if (origin === URL.parse(publicUrl ?? '')?.origin) return true
  if (from.protocol === 'http:' && isOverTls(request, publicUrl)) return false
  return from.host === hostOf(request, from.protocol)
}

/** Of the header `Host`, without the scheme's own port. */
function hostOf({ headers }: FastifyRequest, protocol: string): string | undefined {
  return URL.parse(`${protocol}//${headers.host ?? ''}`)?.host
}
