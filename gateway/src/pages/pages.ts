import { ServiceError } from '@licensing/grpc/errors'
import type { Health } from '@licensing/process/health'
import { isErrorCode } from '@licensing/proto/errors'
import type { FastifyInstance } from 'fastify'
import { openApiDocument } from '../openapi/document.ts'
import { routes } from '../routes/table.ts'
import { mountReference } from './api-reference.ts'
import { errorPage, errorText } from './error-page.ts'
import { mountPortal } from './portal.ts'

interface PageDeps {
  health: Health
  publicUrl?: string | undefined
  portalFolder?: string | undefined
}

const pageHeaders = {
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
}

/** What the gateway answers beside `/v1`. */
export async function mountPages(
  app: FastifyInstance,
  { health, publicUrl, portalFolder }: PageDeps,
): Promise<void> {
  const document = openApiDocument(routes, publicUrl)
  const documentJson = JSON.stringify(document)
  app.get('/openapi.json', (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(documentJson),
  )

  app.get<{ Params: { code: string } }>('/errors/:code', (request, reply) => {
    const { code } = request.params
    if (!isErrorCode(code)) throw new ServiceError('not_found', 'there is no such error code')
    const wantsHtml = request.headers.accept?.includes('text/html') ?? false
    reply.headers(pageHeaders).header('vary', 'Accept')
    if (wantsHtml) return reply.type('text/html; charset=utf-8').send(errorPage(code))
    return reply.type('text/plain; charset=utf-8').send(errorText(code))
  })

  app.get('/healthz', (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))

  app.get('/readyz', async (_request, reply) => {
    const { ready, probes } = await health.check()
    // Which dependency is unavailable, but not its address.
    const parts = Object.fromEntries(
      Object.entries(probes).map(([name, problem]) => [name, problem === null ? 'ready' : 'not ready']),
    )
    return reply
      .code(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: ready ? 'ready' : 'not ready', parts })
  })

  await mountReference(app, document)
  await mountPortal(app, portalFolder)
}
