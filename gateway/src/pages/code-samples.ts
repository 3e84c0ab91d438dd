import type { OpenApiDocument } from '../openapi/document.ts'
import { languages } from './sample-languages.ts'
import type { SampleRequest } from './sample-languages.ts'

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly schema: { readonly examples?: readonly string[]; readonly enum?: readonly string[] }
}

/** The document with `x-codeSamples` at each operation: a program in each language that sends it. */
export function withCodeSamples(document: OpenApiDocument): OpenApiDocument {
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
