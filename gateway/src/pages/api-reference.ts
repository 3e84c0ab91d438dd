import swagger from '@fastify/swagger'
import type { StaticDocumentSpec } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import type { OpenApiDocument } from '../openapi/document.ts'
import { languages } from './sample-languages.ts'
import type { SampleRequest } from './sample-languages.ts'

// The reference sets styles on its elements. There is no upgrade to https, because the gateway can be opened over plain HTTP.
const contentSecurityPolicy = [
  "default-src 'self'",
  "img-src 'self' data:",
  "style-src 'self' 'unsafe-inline'",
  "object-src 'none'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Serves `/docs`, the OpenAPI document for people. The page loads files only from the gateway. */
export async function mountReference(app: FastifyInstance, document: OpenApiDocument): Promise<void> {
  const specification: StaticDocumentSpec = {
    document: withCodeSamples(document) as StaticDocumentSpec['document'],
  }
  await app.register(swagger, { mode: 'static', specification })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: {
      // Without the usual top bar, which can load a document from any address.
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

/**
 * Additions to Swagger UI: code samples of each operation, and a search over all operations and events. It is plain
 * JavaScript, because browsers run it unbuilt.
 */
const referencePlugin = `
const original = window.SwaggerUIBundle
window.SwaggerUIBundle = Object.assign(
  (config) => original({ ...config, plugins: [...config.plugins, licensingReference] }),
  original,
)

function licensingReference({ React }) {
  const h = React.createElement
  const samplesOf = ({ specSelectors, specPath }) =>
    specSelectors.specJson().getIn([...specPath.butLast(), 'x-codeSamples'])
  const sample = (each) =>
    h('details', { key: each.get('lang') },
      h('summary', null, each.get('label')),
      h('pre', { tabIndex: 0 }, h('code', null, each.get('source'))))
  const words = (operation) =>
    [operation.get('method'), operation.get('path'), operation.getIn(['operation', 'summary']), operation.get('id')]
      .join(' ').toLowerCase()
  return {
    fn: {
      opsFilter: (tags, phrase) => tags
        .map((tag) => tag.update('operations', (all) => all.filter((each) => words(each).includes(phrase.toLowerCase()))))
        .filter((tag) => tag.get('operations').size > 0),
    },
    wrapComponents: {
      FilterContainer: (_, { layoutActions, layoutSelectors }) => () =>
        h('div', { className: 'wrapper search' },
          h('label', null, 'Search operations ',
            h('input', {
              type: 'search',
              value: [layoutSelectors.currentFilter()].filter((text) => typeof text === 'string').join(),
              onChange: ({ target }) => layoutActions.updateFilter(target.value === '' ? true : target.value),
            }))),
      // The library's own label has no text.
      Servers: (Original) => (props) =>
        h(React.Fragment, null, h('label', { htmlFor: 'servers', className: 'unseen' }, 'Server'), h(Original, props)),
      responses: (Original) => (props) => {
        const samples = samplesOf(props)
        return h(React.Fragment, null,
          samples && h('section', { className: 'samples' }, h('h4', null, 'Code samples'), samples.toArray().map(sample)),
          h(Original, props))
      },
    },
  }
}
`

/** Colours with a contrast of at least 4.5 to 1, and styles of the additions above. */
const referenceStyle = `
.swagger-ui .info .title small.version-stamp { background-color: #4a6a00 }
.swagger-ui .info a, .swagger-ui .info .link { color: #1f62b5 }
.swagger-ui .btn.authorize { color: #14683d; border-color: #14683d }
.swagger-ui .btn.authorize svg { fill: #14683d }
.swagger-ui .opblock.opblock-post .opblock-summary-method { background: #14683d }
.swagger-ui .opblock.opblock-get .opblock-summary-method { background: #1f62b5 }
.swagger-ui .opblock.opblock-put .opblock-summary-method { background: #8a4b00 }
.swagger-ui .opblock.opblock-patch .opblock-summary-method { background: #0f6657 }
.swagger-ui .opblock.opblock-delete .opblock-summary-method { background: #b71c1c }
.swagger-ui .parameter__in, .swagger-ui .json-schema-2020-12-expand-deep-button { color: #555 }
.swagger-ui .microlight span[style*="211, 99, 99"] { color: #ffb3b3 !important }
.swagger-ui .opblock-summary-path a, .swagger-ui .opblock-summary-control { line-height: 24px }
.swagger-ui .opblock-summary-path a { display: inline-block; min-height: 24px }
.swagger-ui .opblock-summary .view-line-link.copy-to-clipboard, .swagger-ui .opblock-summary .copy-to-clipboard button { width: 24px; min-width: 24px; height: 24px }
.swagger-ui .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
.swagger-ui .samples { padding: 0 20px }
.swagger-ui .samples h4 { font-size: 14px; margin: 10px 0 }
.swagger-ui .samples summary { cursor: pointer; padding: 4px 0; font-family: sans-serif }
.swagger-ui .samples pre { background: #222; color: #fff; padding: 10px; overflow-x: auto; border-radius: 4px }
.swagger-ui .samples pre code { background: none; color: inherit; font-size: 12px }
.swagger-ui .search input { min-width: min(24rem, 100%); margin: 10px }
`

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly schema: { readonly examples?: readonly string[]; readonly enum?: readonly string[] }
}

/** The document with `x-codeSamples` in each operation: a program in each language that calls it. */
function withCodeSamples(document: OpenApiDocument): OpenApiDocument {
  const paths = Object.entries(document.paths).map(([template, operations]) => {
    const sampled = Object.entries(operations).map(([method, operation]) => {
      const request = sampleRequest(method.toUpperCase(), template, operation)
      const samples = languages.map(({ lang, label, write }) => ({ lang, label, source: write(request) }))
      return [method, { ...operation, 'x-codeSamples': samples }] as const
    })
    return [template, Object.fromEntries(sampled)] as const
  })
  return { ...document, paths: Object.fromEntries(paths) }
}

function sampleRequest(
  method: string,
  template: string,
  operation: Readonly<Record<string, unknown>>,
): SampleRequest {
  const {
    parameters = [],
    security,
    requestBody,
  } = operation as {
    parameters?: readonly Parameter[]
    security: readonly object[]
    requestBody?: { content: { 'application/json': { example?: unknown } } }
  }
  const valuesIn = (place: string) =>
    Object.fromEntries(
      parameters
        .filter((parameter) => parameter.in === place && parameter.required)
        .map(({ name, schema }) => [name, schema.examples?.[0] ?? schema.enum?.[0] ?? name]),
    )
  const isRepeatable = parameters.some(({ name }) => name === 'Idempotency-Key')
  return {
    method,
    template,
    path: valuesIn('path'),
    query: valuesIn('query'),
    headers: isRepeatable ? { 'Idempotency-Key': 'order-4711' } : {},
    bearer: bearerOf(security),
    body: requestBody?.content['application/json'].example,
  }
}

function bearerOf([way = {}]: readonly object[]): SampleRequest['bearer'] {
  if ('apiKey' in way) return 'LICENSING_API_KEY'
  return 'activationToken' in way ? 'ACTIVATION_TOKEN' : undefined
}
