import { ServiceError } from '@licensing/grpc/errors'
import type { Health } from '@licensing/process/health'
import { isErrorCode } from '@licensing/proto/errors'
import type { FastifyInstance } from 'fastify'
import { openApiDocument } from '../openapi/document.ts'
import { routes } from '../routes/table.ts'
import { mountReference } from './api-reference.ts'
import { mountDownloads } from './downloads.ts'
import { errorPage, errorText } from './error-page.ts'
import { mountGuides } from './guides.ts'

interface PageDependencies {
  health: Health
  parts: Health
  publicUrl?: string | undefined
  guidesFolder?: string | undefined
  downloadsFolder?: string | undefined
}

const pageHeaders = {
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
}

/** What the gateway answers beside `/v1`. */
export async function mountPages(
  app: FastifyInstance,
  { health, parts, publicUrl, guidesFolder, downloadsFolder }: PageDependencies,
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

  const readiness = cachedReadiness(parts)
  app.get('/readyz', async (_request, reply) => {
    const { ready: areAllReady, probes } = await readiness()
    const ready = areAllReady && !health.isStopping
    const outcomes = Object.entries(probes)
    // Which dependency is unavailable, but not its address.
    const byName = Object.fromEntries(
      outcomes.map(([name, problem]) => [name, problem === null ? 'ready' : 'not ready']),
    )
    const isUseful = outcomes.some(([, problem]) => problem === null)
    const status = ready ? 'ready' : isUseful ? 'degraded' : 'not ready'
    return reply
      .code(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status, parts: byName })
  })

  await mountReference(app, document)
  mountGuides(app, guidesFolder)
  mountDownloads(app, downloadsFolder)
}

const readinessMs = 500

/** Anybody may ask, as often as they like: the services are asked twice a second at most. */
function cachedReadiness(health: Health): () => ReturnType<Health['check']> {
  let asked: ReturnType<Health['check']> | undefined
  let untilMs = 0
  return () => {
    if (asked && performance.now() < untilMs) return asked
    untilMs = performance.now() + readinessMs
    asked = health.check()
    return asked
  }
}
