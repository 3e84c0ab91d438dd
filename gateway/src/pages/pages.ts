import { ServiceError } from '@licensing/grpc/errors'
import type { Health } from '@licensing/process/health'
import { isErrorCode, errorCatalogue } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import type { FastifyInstance } from 'fastify'
import { openApiDocument } from '../openapi/document.ts'
import { routes } from '../routes/table.ts'
import { mountReference } from './api-reference.ts'
import { mountDownloads } from './downloads.ts'
import { mountGuides } from './guides.ts'
import { escapeHtml } from './html.ts'
import { sendPage } from './page.ts'

interface PageDependencies {
  health: Health
  parts: Health
  publicUrl?: string | undefined
  guidesFolder?: string | undefined
  downloadsFolder?: string | undefined
}

/** The pages of the gateway outside of `/v1`. */
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
    reply.header('vary', 'Accept')
    if (wantsHtml) return sendPage(reply, errorCatalogue[code].title, errorPage(code))
    return reply
      .header('x-content-type-options', 'nosniff')
      .type('text/plain; charset=utf-8')
      .send(errorText(code))
  })

  app.get('/healthz', (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))

  const readiness = cachedReadiness(parts)
  app.get('/readyz', async (_request, reply) => {
    const { ready: areAllReady, probes } = await readiness()
    const ready = areAllReady && !health.isStopping
    const outcomes = Object.entries(probes)
    // Names the unavailable dependency, but not its address.
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
  await mountGuides(app, guidesFolder, downloadsFolder)
  mountDownloads(app, downloadsFolder)
}

const readinessMs = 500

/** Anybody may request the readiness at any rate, so the services are asked at most twice a second. */
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

function errorPage(code: ErrorCode): string {
  const { http, title, meaning, remedy } = errorCatalogue[code]
  return `<p>HTTP ${http} · <code>${code}</code></p>
<h1>${title}</h1>
<h2>What it means</h2>
<p>${html(meaning)}</p>
<h2>What to do</h2>
<p>${html(remedy)}</p>`
}

function errorText(code: ErrorCode): string {
  const { http, title, meaning, remedy } = errorCatalogue[code]
  return `${http} ${code}: ${title}\n\nWhat it means: ${meaning}\nWhat to do: ${remedy}\n`
}

function html(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}
