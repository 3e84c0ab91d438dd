import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'

/** `/portal`: the vendor's web pages, where their folder exists. */
export async function mountPortal(app: FastifyInstance, folder: string | undefined): Promise<void> {
  if (folder === undefined || !existsSync(folder)) return
  app.get('/portal', (_request, reply) => reply.redirect('/portal/', 308))
  await app.register(fastifyStatic, {
    root: resolve(folder),
    prefix: '/portal/',
    decorateReply: false,
    dotfiles: 'ignore',
    setHeaders: (response) => {
      response.header('x-content-type-options', 'nosniff')
      response.header('content-security-policy', "default-src 'self'; frame-ancestors 'none'")
      response.header('referrer-policy', 'same-origin')
      response.header('cache-control', 'no-cache')
    },
  })
}
