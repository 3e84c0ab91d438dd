import type { FastifyReply } from 'fastify'
import type { Route } from '../route.ts'

// Products read these: caching, pace, and what to name in a report.
const exposed = 'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id'
const accepted = 'Authorization, Content-Type, If-None-Match, X-Request-Id, Traceparent, Tracestate'
const preflightSeconds = '86400'

/**
 * Whether pages of any origin may call a route: installed products may run in browsers, and nothing that a browser
 * adds by itself counts there. API keys have no business in one.
 */
export function isForBrowsers(route: Route | undefined): boolean {
  return route?.audience === 'product' || route?.audience === 'activation'
}

export function allowAnyOrigin(reply: FastifyReply): void {
  reply.header('access-control-allow-origin', '*')
  reply.header('access-control-expose-headers', exposed)
}

/** What a preflight asks before the request itself. */
export function answerPreflight(reply: FastifyReply, methods: string): void {
  reply.header('access-control-allow-methods', methods)
  reply.header('access-control-allow-headers', accepted)
  reply.header('access-control-max-age', preflightSeconds)
}
