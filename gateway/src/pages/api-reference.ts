import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import type { StaticDocumentSpec } from '@fastify/swagger'
import type { OpenApiDocument } from '../openapi/document.ts'

/** `/docs`: the OpenAPI document for people. Everything it loads comes from here. */
export async function mountReference(app: FastifyInstance, document: OpenApiDocument): Promise<void> {
  const specification: StaticDocumentSpec = { document: document as StaticDocumentSpec['document'] }
  await app.register(swagger, { mode: 'static', specification })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: {
      docExpansion: 'list',
      deepLinking: true,
      persistAuthorization: false,
      tryItOutEnabled: false,
    },
    theme: { title: 'Licensing API' },
    staticCSP: true,
  })
}
