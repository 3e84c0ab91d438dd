import type { FastifyReply } from 'fastify'
import type { Route } from '../route.ts'

// Headers that products read: for caching, rate limits and error reports.
const exposed = 'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id'
const accepted = 'Authorization, Content-Type, If-None-Match, X-Request-Id, Traceparent, Tracestate'
const preflightSeconds = '86400'

/**
 * Whether pages of any origin may call a route. Installed products can run in browsers, and their routes use no cookies.
 * Routes with API keys are excluded, because API keys must not be used in browsers.
 */
export function isForBrowsers(route: Route | undefined): boolean {
  return route?.audience === 'product' || route?.audience === 'activation'
}

export function allowAnyOrigin(reply: FastifyReply): void {
  reply.header('access-control-allow-origin', '*')
  reply.header('access-control-expose-headers', exposed)
}

/** Answers a preflight request. */
export function answerPreflight(reply: FastifyReply, methods: string): void {
  reply.header('access-control-allow-methods', methods)
  reply.header('access-control-allow-headers', accepted)
  reply.header('access-control-max-age', preflightSeconds)
}
