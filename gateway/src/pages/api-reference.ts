import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import type { StaticDocumentSpec } from '@fastify/swagger'
import type { OpenApiDocument } from '../openapi/document.ts'
import { withCodeSamples } from './code-samples.ts'
import { referencePlugin, referenceStyle } from './reference-plugin.ts'

// The reference puts styles on its elements. No upgrade to https: the gateway may be looked at over plain HTTP.
const contentSecurityPolicy = [
  "default-src 'self'",
  "img-src 'self' data:",
  "style-src 'self' 'unsafe-inline'",
  "object-src 'none'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** `/docs`: the OpenAPI document for people. Everything it loads comes from here. */
export async function mountReference(app: FastifyInstance, document: OpenApiDocument): Promise<void> {
  const specification: StaticDocumentSpec = {
    document: withCodeSamples(document) as StaticDocumentSpec['document'],
  }
  await app.register(swagger, { mode: 'static', specification })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: {
      // Without a bar on top that would load the document of any other address.
      layout: 'BaseLayout',
      docExpansion: 'list',
      deepLinking: true,
      filter: true,
      persistAuthorization: false,
      tryItOutEnabled: false,
    },
    theme: {
      title: 'Licensing API',
      js: [{ filename: 'reference.js', content: referencePlugin }],
      css: [{ filename: 'reference.css', content: referenceStyle }],
    },
    staticCSP: contentSecurityPolicy,
  })
}
