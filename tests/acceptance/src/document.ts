/** The parts of the OpenAPI document that tests read. */
export interface ApiDocument {
  paths: Record<string, Record<string, DocumentedOperation>>
  /** By type of event. */
  webhooks: Record<
    string,
    { post: { requestBody: { content: { 'application/json': { schema: Schema; example: object } } } } }
  >
  components: { schemas: Record<string, Schema>; responses: Record<string, unknown> }
}

export interface DocumentedOperation {
  operationId: string
  parameters?: Parameter[]
  requestBody?: { required: boolean; content: { 'application/json': { schema: Schema; example?: object } } }
  responses: Record<string, { content?: Record<string, { schema: Schema }>; $ref?: string }>
  'x-scopes'?: string[]
  security: object[]
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required: boolean
  schema: Schema
}

export interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  enum?: unknown[]
  pattern?: string
  examples?: unknown[]
  format?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  $ref?: string
}

export interface Operation extends DocumentedOperation {
  method: string
  path: string
}

export async function readDocument(gatewayUrl: string): Promise<ApiDocument> {
  const response = await fetch(`${gatewayUrl}/openapi.json`)
  return (await response.json()) as ApiDocument
}

export function operationsOf({ paths }: ApiDocument): Operation[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  )
}

export function bodySchemaOf(operation: DocumentedOperation): Schema | undefined {
  return operation.requestBody?.content['application/json'].schema
}
