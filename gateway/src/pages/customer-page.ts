import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import type { FastifyInstance } from 'fastify'
import { join } from 'node:path'
import type { AdmissionDependencies } from '../admission/admit.ts'
import { limitKeyOf } from '../admission/client-address.ts'
import { isId } from '../fields/id.ts'
import { builtPage } from '../http/built-page.ts'

const notBuilt = `The page for customers is not built here.

In a checkout, \`npm run portal\` builds it (\`npm start\` does so too), and this page shows it from then on.
`

/**
 * Serves the page of the vendor's customers: `/customer` for a session in the fragment of the address, and
 * `/customer/{app_id}` for signing in with a licence key. If customers cannot do that, the page has the status 404 and says so.
 *
 * @param folder the built portal, which contains this page
 */
export async function mountCustomerPage(
  app: FastifyInstance,
  { services, throttle }: AdmissionDependencies,
  folder: string,
): Promise<void> {
  const statusOf = async (applicationId: string): Promise<number> => {
    if (!isId('app', applicationId)) return 404
    try {
      const { page } = await services.catalog.findCustomerPage({ applicationId })
      return page?.keySignIn ? 200 : 404
    } catch (error) {
      if (error instanceof ServiceError) return errorCatalogue[error.code].http
      throw error
    }
  }
  await app.register(async (scope) => {
    const send = await builtPage(scope, join(folder, 'customer'), notBuilt)
    scope.get('/customer', (_request, reply) => send('', reply))
    scope.get<{ Params: { file: string } }>('/customer/assets/:file', (request, reply) =>
      send(`assets/${request.params.file}`, reply),
    )
    scope.get<{ Params: { app_id: string } }>('/customer/:app_id', async (request, reply) => {
      throttle.product(reply, limitKeyOf(request.ip))
      reply.code(await statusOf(request.params.app_id))
      return send('', reply)
    })
  })
}
