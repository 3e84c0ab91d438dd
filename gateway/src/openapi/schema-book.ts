import { z } from 'zod'

export interface JsonSchema {
  description?: string
  properties?: Record<string, JsonSchema>
  required?: string[]
  [keyword: string]: unknown
}

/** Converts zod schemas to JSON Schema. A schema with an id is added once to the document's components. */
export class SchemaBook {
  readonly schemas: Record<string, JsonSchema> = {}

  /** The schema of a request. */
  input(schema: z.ZodType): JsonSchema {
    return this.#convert(schema, 'input')
  }

  /** The schema of an answer. */
  output(schema: z.ZodType): JsonSchema {
    return this.#convert(schema, 'output')
  }

  #convert(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const {
      $schema: _,
      $defs,
      ...converted
    } = z.toJSONSchema(schema, {
      target: 'draft-2020-12',
      io,
      unrepresentable: 'any',
      override: ({ jsonSchema }) => {
        // The defaults of cursors are internal.
        if (typeof jsonSchema.default === 'bigint' || jsonSchema.default === '') delete jsonSchema.default
        delete jsonSchema.id
        // Of a nullable schema that names its types: a second description of null, which generators of clients do not expect.
        if (Array.isArray(jsonSchema.type)) delete jsonSchema.anyOf
      },
    }) as JsonSchema & { $defs?: Record<string, JsonSchema> }
    for (const [id, definition] of Object.entries($defs ?? {})) this.schemas[id] = relocate(definition)
    const id = z.globalRegistry.get(schema)?.id
    if (id === undefined) return relocate(converted)
    this.schemas[id] ??= relocate(converted)
    return { $ref: `#/components/schemas/${id}` }
  }
}

/** References within one schema become references within the document. */
function relocate<T>(part: T): T {
  return JSON.parse(JSON.stringify(part).replaceAll('"#/$defs/', '"#/components/schemas/')) as T
}
