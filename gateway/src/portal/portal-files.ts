import fastifyStatic from '@fastify/static'
import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { BuiltFiles } from '../http/built-files.ts'
import { sessionPath } from './session-routes.ts'

// Allows only the gateway's own files and calls of the gateway.
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const headers = {
  'content-security-policy': contentSecurityPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}
const index = 'index.html'
const notBuilt = `The portal is not built here.

In a checkout, \`npm run portal\` builds it (\`npm start\` does so too), and this page shows it from then on.
Elsewhere PORTAL_DIR names the folder that it is in.
`

/** Serves the portal at `/portal`. Every path below it that is not a file returns the page, which reads the path itself. */
export async function mountPortal(app: FastifyInstance, folder: string): Promise<void> {
  const files = new BuiltFiles(folder, index)
  await app.register(async (scope) => {
    // The build of the portal writes a `.br` and a `.gz` beside files that become smaller.
    await scope.register(fastifyStatic, { serve: false, preCompressed: true, cacheControl: false })
    const answer = async (path: string, reply: FastifyReply) => {
      reply.headers(headers)
      const known = await files.list()
      if (known === undefined) {
        return reply
          .code(404)
          .type('text/plain; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(notBuilt)
      }
      // A file of an earlier build. Returning the page in its place would break a script.
      if (path.startsWith('assets/') && !known.has(path)) {
        throw new ServiceError('not_found', 'the portal has no such file; load the page again')
      }
      const file = known.has(path) ? path : index
      // The names of these files contain a hash of their content.
      const immutable = file.startsWith('assets/')
      reply.header('cache-control', immutable ? 'public, max-age=31536000, immutable' : 'no-cache')
      return reply.sendFile(file, files.root)
    }
    scope.get('/portal', (_request, reply) => answer(index, reply))
    scope.get<{ Params: { '*': string } }>('/portal/*', (request, reply) =>
      request.url.split('?', 1)[0] === sessionPath
        ? reply.callNotFound()
        : answer(request.params['*'], reply),
    )
  })
}
