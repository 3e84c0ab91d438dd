import type { FastifyReply } from 'fastify'

// No script runs here. Forms may lead on to the shop's own pages.
const contentSecurityPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self' http: https:; frame-ancestors 'none'"

export function sendPage(reply: FastifyReply, page: string): FastifyReply {
  return reply
    .header('content-security-policy', contentSecurityPolicy)
    .header('cache-control', 'no-store')
    .type('text/html; charset=utf-8')
    .send(page)
}
