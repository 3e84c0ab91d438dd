import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'

// Headers that products read: for caching, rate limits and error reports.
const exposed = 'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id'
const accepted = 'Authorization, Content-Type, If-None-Match, X-Request-Id, Traceparent, Tracestate'
const preflightSeconds = '86400'

interface KnownPath {
  pattern: RegExp
  methods: Set<string>
  forBrowsers: boolean
}

/** Answers requests that match no route: OPTIONS, 405 with `Allow` if the path has other methods, otherwise 404. */
export class UnknownRoutes {
  readonly #known: KnownPath[] = []

  /**
   * @param path can have `{name}` for any segment, and `*` at the end for any number of segments
   * @param forBrowsers whether pages of any origin may call it
   */
  add(method: string, path: string, forBrowsers: boolean): void {
    const source = path
      .replaceAll('.', '\\.')
      .replace(/\*$/, '.*')
      .replaceAll(/\{[^}]+\}/g, '[^/]+')
    const pattern = new RegExp(`^${source}$`)
    const known = this.#known.find((candidate) => candidate.pattern.source === pattern.source)
    const methods = known?.methods ?? new Set()
    methods.add(method)
    if (method === 'GET') methods.add('HEAD')
    if (!known) this.#known.push({ pattern, methods, forBrowsers })
  }

  /** Replies to OPTIONS, and throws for anything else. */
  answer(request: FastifyRequest, reply: FastifyReply): void {
    const path = pathOf(request.url)
    const known = this.#known.find(({ pattern }) => pattern.test(path))
    if (!known) throw new ServiceError('not_found', noRoute(path))
    const methods = [...known.methods, 'OPTIONS'].join(', ')
    reply.header('allow', methods)
    if (known.forBrowsers) allowAnyOrigin(reply)
    if (request.method !== 'OPTIONS') {
      throw new ServiceError(
        'method_not_allowed',
        `this path does not support ${request.method}; it supports ${methods}`,
      )
    }
    if (known.forBrowsers) answerPreflight(reply, methods)
    reply.code(204).send()
  }
}

function noRoute(path: string): string {
  const advice = /license/i.test(path) ? 'write licence with c' : '/openapi.json lists all routes'
  return `there is no such route: ${advice}`
}

/** The path as the router reads it: percent-decoded, and without a scheme and host in the request line. */
function pathOf(url: string): string {
  const [path = ''] = url.replace(/^[a-z]+:\/\/[^/]*/i, '').split(/[?#]/, 1)
  try {
    return decodeURI(path)
  } catch {
    // The router does not refuse invalid percent-encoding for methods that it does not have.
    return path
  }
}

export function allowAnyOrigin(reply: FastifyReply): void {
  reply.header('access-control-allow-origin', '*')
  reply.header('access-control-expose-headers', exposed)
}

function answerPreflight(reply: FastifyReply, methods: string): void {
  reply.header('access-control-allow-methods', methods)
  reply.header('access-control-allow-headers', accepted)
  reply.header('access-control-max-age', preflightSeconds)
}
