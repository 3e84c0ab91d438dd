import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

interface Operation {
  readonly responses?: object
  readonly security?: readonly Readonly<Record<string, unknown>>[]
}

interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

/** The gateway's OpenAPI document, reduced to the operations for API keys, without examples of answers. */
export function readBackendDocument(): OpenApiDocument {
  const file = new URL('../../../gateway/openapi.json', import.meta.url)
  const document = JSON.parse(readFileSync(file, 'utf8')) as OpenApiDocument
  const paths = Object.entries(document.paths).map(([path, operations]) => {
    const kept = Object.entries(operations)
      .filter(([, { security = [] }]) => security.some((way) => 'apiKey' in way))
      .map(([method, operation]) => [method, withoutAnswerExamples(operation)] as const)
    return [path, Object.fromEntries(kept)] as const
  })
  return { ...document, paths: Object.fromEntries(paths.filter(([, kept]) => Object.keys(kept).length > 0)) }
}

function withoutAnswerExamples({ responses, ...operation }: Operation): Operation {
  const text = JSON.stringify(responses, (key, value: unknown) => (key === 'example' ? undefined : value))
  return { ...operation, responses: JSON.parse(text) as object }
}

const PROSE = new Set(['description', 'summary', 'title', 'example', 'examples', 'tags', 'info', 'servers'])

/** A hash of everything in a document that affects its types. Changes of prose do not change the hash. */
export function hashOf(document: OpenApiDocument): string {
  const text = JSON.stringify(document, (key, value: unknown) => (PROSE.has(key) ? undefined : value))
  return createHash('sha256').update(text).digest('hex')
}
