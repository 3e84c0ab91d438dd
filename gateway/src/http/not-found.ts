import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Answers what no route answers: 404, or 405 with `Allow` where the path is known, or `Allow` alone to OPTIONS. */
export class UnknownRoutes {
  readonly #known: { pattern: RegExp; methods: Set<string> }[] = []

  /** @param path with `{name}` for what stands for anything, and `*` at the end for everything below */
  add(method: string, path: string): void {
    const source = path
      .replaceAll('.', '\\.')
      .replace(/\*$/, '.*')
      .replaceAll(/\{[^}]+\}/g, '[^/]+')
    const pattern = new RegExp(`^${source}$`)
    const known = this.#known.find((candidate) => candidate.pattern.source === pattern.source)
    const methods = known?.methods ?? new Set()
    methods.add(method)
    if (method === 'GET') methods.add('HEAD')
    if (!known) this.#known.push({ pattern, methods })
  }

  /** Replies to OPTIONS, and throws for anything else. */
  answer(request: FastifyRequest, reply: FastifyReply): void {
    const path = request.url.split('?', 1)[0]!
    const allowed = this.#known.find(({ pattern }) => pattern.test(path))
    if (!allowed) throw new ServiceError('not_found', 'there is no such route')
    reply.header('allow', [...allowed.methods, 'OPTIONS'].join(', '))
    if (request.method !== 'OPTIONS') {
      throw new ServiceError('method_not_allowed', `this path does not answer ${request.method}`)
    }
    reply.code(204).send()
  }
}
