import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { decrypt, encrypt, sessionSeconds } from './session-encryption.ts'
import type { Purpose, SessionKeys } from './session-encryption.ts'

const sessionCookie = 'portal_session'
// Browsers accept a cookie with this prefix only over TLS and only from this host, not from another subdomain.
const tlsPrefix = '__Host-'

/** Sessions of the portal: an encrypted cookie contains the hash of the API key or the id of the member. The gateway stores none. */
export class Sessions {
  readonly #keys: SessionKeys | undefined
  readonly #publicUrl: string | undefined

  /** @param keys if undefined, nobody can sign in and cookies are ignored */
  constructor(keys: SessionKeys | undefined, publicUrl: string | undefined) {
    this.#keys = keys
    this.#publicUrl = publicUrl
  }

  /**
   * The hash of the API key, or the id of the member, in the session of a request. It needs the header `X-Requested-With` and the gateway's own
   * origin, which pages of other origins cannot send. `Authorization` has precedence.
   *
   * @returns undefined if the request has no session or its cookie is no longer valid
   * @throws ServiceError `origin_refused`
   */
  credentialOf(request: FastifyRequest): string | undefined {
    const { authorization, 'x-requested-with': requestedWith } = request.headers
    if (authorization !== undefined || requestedWith !== 'portal') return undefined
    const cookie = this.cookieOf(request, sessionCookie)
    if (cookie === undefined) return undefined
    refuseForeignOrigin(request, this.#publicUrl)
    return this.decrypt(cookie, 'session')
  }

  /** @param credential the hash of an API key in base64, or the id of a member */
  begin(request: FastifyRequest, reply: FastifyReply, credential: string): void {
    const session = this.encrypt(credential, 'session', Date.now() + sessionSeconds * 1000)
    this.setCookie(request, reply, sessionCookie, session, sessionSeconds, 'Strict')
  }

  end(request: FastifyRequest, reply: FastifyReply): void {
    this.setCookie(request, reply, sessionCookie, '', 0, 'Strict')
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

  /** @throws ServiceError `unavailable` if nobody can sign in */
  encrypt(text: string, purpose: Purpose, endMs: number): string {
    return encrypt(text, purpose, endMs, this.requireKeys())
  }

  decrypt(text: string, purpose: Purpose): string | undefined {
    return this.#keys && decrypt(text, purpose, Date.now(), this.#keys)
  }

  cookieOf(request: FastifyRequest, name: string): string | undefined {
    const wanted = `${this.#prefixFor(request)}${name}=`
    const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim())
    return pairs.find((pair) => pair.startsWith(wanted))?.slice(wanted.length)
  }

  setCookie(
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    value: string,
    maxAgeSeconds: number,
    sameSite: 'Lax' | 'Strict',
  ): void {
    const prefix = this.#prefixFor(request)
    const attributes = ['Path=/', `Max-Age=${maxAgeSeconds}`, 'HttpOnly', `SameSite=${sameSite}`]
    if (prefix === tlsPrefix) attributes.push('Secure')
    reply.header('set-cookie', [`${prefix}${name}=${value}`, ...attributes].join('; '))
  }

  #prefixFor(request: FastifyRequest): string {
    return isOverTls(request, this.#publicUrl) ? tlsPrefix : ''
  }
}

/**
 * Whether the browser uses TLS. Behind a proxy that terminates TLS and does not send X-Forwarded-Proto, PUBLIC_URL shows it.
 */
export function isOverTls(request: FastifyRequest, publicUrl: string | undefined): boolean {
  if (request.protocol === 'https') return true
  const known = URL.parse(publicUrl ?? '')
  return known?.protocol === 'https:' && known.host === hostOf(request, known.protocol)
}

/** Refuses requests of pages of other origins. Callers other than browsers send no origin. */
function refuseForeignOrigin(request: FastifyRequest, publicUrl: string | undefined): void {
  if (isOfOwnPage(request, publicUrl)) return
  throw new ServiceError(
    'origin_refused',
    'the portal’s session works only from the gateway’s own pages; send an API key in Authorization, or have PUBLIC_URL name the address that the browser shows',
  )
}

/** Whether a request does not come from a page of another origin. */
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

/** The header `Host`, without the scheme's default port. */
function hostOf({ headers }: FastifyRequest, protocol: string): string | undefined {
  return URL.parse(`${protocol}//${headers.host ?? ''}`)?.host
}
