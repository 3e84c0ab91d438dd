import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyRequest } from 'fastify'

/**
 * Whether the browser talks to the gateway over TLS. A proxy that ends TLS and says nothing of it is known by
 * PUBLIC_URL.
 */
export function isOverTls(request: FastifyRequest, publicUrl: string | undefined): boolean {
  if (request.protocol === 'https') return true
  const known = URL.parse(publicUrl ?? '')
  return known?.protocol === 'https:' && known.host === hostOf(request, known.protocol)
}

/** Refuses what a page of another origin sent: decisions, section 12. A caller that is no browser names none. */
export function refuseForeignOrigin(request: FastifyRequest, publicUrl: string | undefined): void {
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
