import { LogController, fastify } from 'fastify'
import type { FastifyInstance } from 'fastify'
import { apiRoutes } from './api/routes.ts'
import { serveApi } from './api/serve-api.ts'
import { serveControl } from './control/routes.ts'
import type { Control } from './control/control.ts'
import { parseForm } from './http/form.ts'
import { serveOauth } from './pages/oauth.ts'
import { servePages } from './pages/routes.ts'

export function newServer(logLevel: string): FastifyInstance {
  return fastify({
    // Answers that are withheld on purpose must not keep the server from stopping.
    forceCloseConnections: true,
    logController: new LogController({ disableRequestLogging: true }),
    routerOptions: { querystringParser: parseForm },
    logger: {
      level: logLevel,
      base: { service: 'stripe-simulator', simulated: true },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
  })
}

export function serve(server: FastifyInstance, control: Control): void {
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, body),
  )
  server.addHook('onRequest', async (request, reply) => {
    reply.header('x-simulated', 'stripe-simulator; no money moves')
    // Another site's page must not press these buttons.
    const foreign = request.headers['sec-fetch-site'] === 'cross-site'
    if (foreign && request.method !== 'GET') await reply.code(403).send({ error: 'cross-site request' })
  })
  server.addHook('onResponse', async (request, reply) => {
    const { method, url } = request
    request.log.debug({ method, url, status: reply.statusCode }, 'request')
  })
  server.setNotFoundHandler((request, reply) => {
    const message = `Unrecognized request URL (${request.method}: ${request.url}). The simulator has only a part of Stripe's API.`
    return reply.code(404).send({ error: { type: 'invalid_request_error', message } })
  })
  server.get('/healthz', () => ({ status: 'ok', simulated: true }))
  const undelivered = (eventId: string): boolean => control.deliveries.isUndelivered(eventId)
  serveApi(server, control, apiRoutes(undelivered))
  serveControl(server, control)
  servePages(server, control)
  serveOauth(server, control)
}
