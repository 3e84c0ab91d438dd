import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { decrypt, encrypt, sessionSeconds } from './session-encryption.ts'
import type { SessionKeys } from './session-encryption.ts'

// Browsers accept a cookie with the prefix `__Host-` only over TLS and only from this host, not from another subdomain.
const names = { tls: '__Host-portal_session', plain: 'portal_session' } as const

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
    const cookie = cookieOf(request, this.#nameFor(request))
    if (cookie === undefined) return undefined
    refuseForeignOrigin(request, this.#publicUrl)
    return this.#keys && decrypt(cookie, 'session', Date.now(), this.#keys)
  }

  /** @param credential the hash of an API key in base64, or the id of a member */
  begin(request: FastifyRequest, reply: FastifyReply, credential: string): void {
    const endMs = Date.now() + sessionSeconds * 1000
    this.#setCookie(request, reply, encrypt(credential, 'session', endMs, this.requireKeys()), sessionSeconds)
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
 * Whether the browser uses TLS. Behind a proxy that terminates TLS and does not send X-Forwarded-Proto, PUBLIC_URL shows it.
 */
export function isOverTls(request: FastifyRequest, publicUrl: string | undefined): boolean {
  if (request.protocol === 'https') return true
  const known = URL.parse(publicUrl ?? '')
  return known?.protocol === 'https:' && known.host === hostOf(request, known.protocol)
}

/** Refuses requests of pages of other origins (decisions, section 12). Callers other than browsers send no origin. */
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
