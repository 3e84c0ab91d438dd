import fastifyStatic from '@fastify/static'
import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BuiltFiles } from '../http/built-files.ts'
import { listForMachines } from './downloads.ts'

const index = 'docs/guides/index.html'
// Their names contain a hash of their content.
const assets = 'docs/guides/assets/'

/**
 * Serves the guides at `/docs/guides` and `/docs/operations`, as pages and as Markdown, and `/llms.txt`, which lists them
 * and the packages. They may be built after the start.
 */
export async function mountGuides(
  app: FastifyInstance,
  folder: string | undefined,
  downloadsFolder: string | undefined,
): Promise<void> {
  const site = new BuiltFiles(folder ?? '/nowhere', index)
  await app.register(async (scope) => {
    await scope.register(fastifyStatic, { serve: false, preCompressed: true, cacheControl: false })
    const answer = async (path: string, reply: FastifyReply) => {
      const files = await site.listWhenBuilt()
      if (files === undefined) {
        throw new ServiceError(
          'not_found',
          'this gateway was built without the guides; in a checkout npm start builds them, elsewhere GUIDES_DIR names their folder',
        )
      }
      const file = [path, `${path}.html`, `${path}index.html`].find((name) => files.has(name))
      if (file === undefined) throw new ServiceError('not_found', `there is no guide at /${path}`)
      reply.header(
        'cache-control',
        file.startsWith(assets) ? 'public, max-age=31536000, immutable' : 'no-cache',
      )
      reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'same-origin' })
      if (file.endsWith('.html')) {
        const page = await readFile(join(site.root, file), 'utf8')
        reply.header('content-security-policy', contentSecurityPolicy(page))
      }
      if (file === 'llms.txt') {
        const guides = await readFile(join(site.root, file), 'utf8')
        return reply.type('text/plain; charset=utf-8').send(guides + (await listForMachines(downloadsFolder)))
      }
      return reply.sendFile(file, site.root)
    }
    scope.get('/docs/guides', (_request, reply) => reply.redirect('/docs/guides/', 308))
    for (const part of ['guides', 'operations']) {
      scope.get<{ Params: { '*': string } }>(`/docs/${part}/*`, (request, reply) =>
        answer(`docs/${part}/${request.params['*']}`, reply),
      )
    }
    // A page that was loaded before a new build requests hashmap.json.
    for (const file of ['llms.txt', 'hashmap.json']) {
      scope.get(`/${file}`, (_request, reply) => answer(file, reply))
    }
  })
}

/** Allows only the gateway's own files, the scripts in the page, and styles on elements, which colour the code. */
function contentSecurityPolicy(page: string): string {
  const scripts = [...page.matchAll(/<script(?![^>]* src=)[^>]*>([^]*?)<\/script>/g)].map(
    ([, script]) => `'sha256-${createHash('sha256').update(script!).digest('base64')}'`,
  )
  return [
    "default-src 'none'",
    ["script-src 'self'", ...scripts].join(' '),
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
