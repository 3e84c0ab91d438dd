import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance } from 'fastify'
import { builtPage } from '../http/built-page.ts'
import { sessionPath } from './session-routes.ts'
import { signInPaths } from './sign-in-routes.ts'

const notBuilt = `The portal is not built here.

In a checkout, \`npm run portal\` builds it (\`npm start\` does so too), and this page shows it from then on.
Elsewhere PORTAL_DIR names the folder that it is in.
`

/** Pages that exist if people sign in at an identity provider, and are not the portal's own. */
const noPages: readonly string[] = Object.values(signInPaths)

/** Serves the portal at `/portal`. Every path below it that is not a file returns the page, which reads the path itself. */
export async function mountPortal(app: FastifyInstance, folder: string): Promise<void> {
  await app.register(async (scope) => {
    const send = await builtPage(scope, folder, notBuilt)
    scope.get('/portal', (_request, reply) => send('', reply))
    scope.get<{ Params: { '*': string } }>('/portal/*', (request, reply) => {
      const path = request.url.split('?', 1)[0]!
      if (path === sessionPath) return reply.callNotFound()
      if (noPages.includes(path)) throw new ServiceError('not_found', 'there is no such page')
      return send(request.params['*'], reply)
    })
  })
}
