import fastifyStatic from '@fastify/static'
import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { BuiltFiles } from './built-files.ts'

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

/**
 * Serves a page that was built into a folder, with its files in `assets/`. The folder need not exist yet.
 *
 * @param notBuilt the text while there is no build
 * @returns sends the file of a path below the page. A path that is no file gets the page, which reads the path itself
 */
export async function builtPage(
  scope: FastifyInstance,
  folder: string,
  notBuilt: string,
): Promise<(path: string, reply: FastifyReply) => Promise<FastifyReply>> {
  const files = new BuiltFiles(folder, index)
  // The build writes a `.br` and a `.gz` beside files that become smaller.
  await scope.register(fastifyStatic, { serve: false, preCompressed: true, cacheControl: false })
  return async (path, reply) => {
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
      throw new ServiceError('not_found', 'this page has no such file; load the page again')
    }
    const file = known.has(path) ? path : index
    // The names of these files contain a hash of their content.
    const immutable = file.startsWith('assets/')
    reply.header('cache-control', immutable ? 'public, max-age=31536000, immutable' : 'no-cache')
    return reply.sendFile(file, files.root)
  }
}
