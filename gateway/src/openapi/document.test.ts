import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { webhookEventTypes } from '@licensing/proto/webhook-events'
import { pathIds, pathTexts } from '../fields/id.ts'
import { routes } from '../routes/table.ts'
import { openApiDocument } from './document.ts'
import { requestExamples } from './examples.ts'
import type { JsonSchema } from './schema-book.ts'

interface Operation {
  operationId: string
  description?: string
  parameters?: { name: string; description?: string }[]
  requestBody?: object
  responses: object
}

interface WebhookOperation {
  requestBody: {
    content: {
      'application/json': {
        schema: { properties: Record<string, JsonSchema> }
        example: { data: { object: Record<string, unknown> } }
      }
    }
  }
}

interface Response {
  content?: { 'application/json': { example?: unknown } }
}

const document = openApiDocument(routes)

test('every route of the table is in the document, and nothing else', () => {
  const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(documented.toSorted()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).toSorted())
})

test('every operation has a unique id, a summary, its success and its errors', () => {
  const operations = Object.values(document.paths).flatMap((each) => Object.values(each))
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
  for (const operation of operations) {
    expect(operation.summary, operation.operationId).toEqual(expect.any(String))
    const statuses = Object.keys(operation.responses)
    expect(
      statuses.some((status) => status.startsWith('2')),
      operation.operationId,
    ).toBe(true)
    for (const status of ['429', '500', '503']) expect(statuses, operation.operationId).toContain(status)
  }
})

test('every operation, property and parameter has a description', () => {
  const silent: string[] = []
  const walk = (at: string, part: unknown) => {
    if (typeof part !== 'object' || part === null) return
    const { properties = {}, ...rest } = part as JsonSchema
    for (const [name, property] of Object.entries(properties)) {
      if (!property.description) silent.push(`${at}.${name}`)
      walk(`${at}.${name}`, property)
    }
    for (const inner of Object.values(rest)) walk(at, inner)
  }
  for (const [name, schema] of Object.entries(document.components.schemas)) walk(name, schema)
  const operations = [...Object.values(document.paths), ...Object.values(document.webhooks)]
  for (const operation of operations.flatMap((each) => Object.values(each) as Operation[])) {
    if (!operation.description) silent.push(operation.operationId)
    for (const { name, description } of operation.parameters ?? []) {
      if (!description) silent.push(`${operation.operationId} ${name}`)
    }
    walk(operation.operationId, [operation.requestBody, operation.responses])
  }
  expect(silent).toEqual([])
})

test('there is a webhook for every type of event, with the type as a constant and a valid example', () => {
  expect(Object.keys(document.webhooks)).toEqual([...webhookEventTypes])
  for (const [type, { post }] of Object.entries(document.webhooks)) {
    const { schema, example } = (post as WebhookOperation).requestBody.content['application/json']
    expect(schema.properties['type'], type).toMatchObject({ const: type })
    expect(Object.keys(example)).toEqual(Object.keys(schema.properties))
    const { object } = schema.properties['data']!.properties!
    expect(Object.keys(example.data.object)).toEqual(Object.keys(object!.properties!))
    for (const value of Object.values(example.data.object)) expect(value, type).toBeDefined()
  }
})

test('every operation with a body has an example of it, and every example has an operation', () => {
  const ids = routes.filter(({ body, rawBody }) => body && !rawBody).map(({ operationId }) => operationId)
  expect(Object.keys(requestExamples).toSorted()).toEqual(ids.toSorted())
})

test('every successful answer with a body has an example that matches its schema', () => {
  const examples = routes.flatMap(({ operationId, answer }) => {
    const operation = Object.values(document.paths)
      .flatMap((each) => Object.values(each))
      .find((each) => each.operationId === operationId)!
    return Object.entries(operation.responses as Record<string, Response>)
      .filter(([status, { content }]) => status.startsWith('2') && content)
      .map(([status, { content }]) => ({
        at: `${operationId} ${status}`,
        answer,
        ...content!['application/json'],
      }))
  })
  expect(examples.length).toBeGreaterThan(70)
  const wrong = examples.flatMap(({ at, answer, example }) => {
    const { data, error } = answer!.safeParse(example)
    if (error)
      return [`${at}: ${error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join()}`]
    return isDeepStrictEqual(data, example) ? [] : [`${at}: has fields that the schema does not have`]
  })
  expect(wrong).toEqual([])
})

test('the document has the server and the form of api_version', () => {
  expect(document.servers).toEqual([{ url: '/', description: 'This licensing service' }])
  expect(openApiDocument(routes, 'https://licensing.example.com').servers).toMatchObject([
    { url: 'https://licensing.example.com' },
  ])
  const schemas = [
    document.components.schemas['Event']!,
    ...Object.values(document.webhooks).map(
      ({ post }) => (post as WebhookOperation).requestBody.content['application/json'].schema,
    ),
  ]
  for (const { properties } of schemas) {
    const pattern = new RegExp(String(properties!['api_version']!['pattern']))
    expect(['2026-11-01', '2026-1-1', 'v1', '2026-11-01T00'].filter((text) => pattern.test(text))).toEqual([
      '2026-11-01',
    ])
  }
})

test('every reference in the document has a target', () => {
  const text = JSON.stringify(document)
  const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path!)
  expect(references.length).toBeGreaterThan(100)
  for (const reference of references) {
    const target = reference
      .split('/')
      .reduce<unknown>((at, part) => (at as Record<string, unknown>)?.[part], document)
    expect(target, reference).toBeDefined()
  }
})

test('every parameter in a path is an id that the gateway knows, or a text that the vendor chooses', () => {
  for (const { path } of routes) {
    for (const [, name] of path.matchAll(/\{([^}]+)\}/g)) {
      expect([...Object.keys(pathIds), ...Object.keys(pathTexts)], path).toContain(name)
    }
  }
})
