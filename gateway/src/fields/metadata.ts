import type { Metadata } from '@licensing/proto/metadata'
import { metadataLimits, problemOfMetadata } from '@licensing/proto/metadata'
import { isStorable, unstorable } from '@licensing/proto/text'
import { z } from 'zod'
import { lengths } from './text.ts'

const { entries: maxEntries, name, value } = metadataLimits
const maxFilters = 3

const entrySchema = { type: 'string', ...lengths(value) }
const schema = {
  type: 'object',
  maxProperties: maxEntries,
  propertyNames: { pattern: name.source },
  additionalProperties: entrySchema,
}
// `z.record` cannot be used, because it leaves out an entry with the name `__proto__`.
const object = z.unknown().transform((given, context) => {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given
  context.addIssue({ code: 'custom', message: 'must be an object' })
  return z.NEVER
})

/** Metadata in a request that creates a resource. */
export const metadata = object
  .transform((entries, context) => {
    checkNumber(entries, maxEntries, context)
    return checkEntries(entries, context, problemOfEntry)
  })
  .meta(schema)

/** Metadata of an item of an import. If an entry breaks a rule, only that item fails. */
export const importedMetadata = object
  .transform((entries, context) => checkEntries(entries, context, (_named, entry) => problemOfType(entry)))
  .meta(schema)

/** A change of metadata in a PATCH. The service checks the number of entries of the result. */
export const metadataChange = object
  .nullable()
  .transform((given, context) => {
    if (given === null) return { set: {}, remove: [], clear: true }
    const entries = Object.entries(given)
    const set = Object.fromEntries(entries.filter(([, entry]) => entry !== null))
    const remove = entries.filter(([, entry]) => entry === null).map(([removed]) => removed)
    checkEntries(Object.fromEntries(remove.map((removed) => [removed, ''])), context, problemOfEntry)
    return { set: checkEntries(set, context, problemOfEntry), remove, clear: false }
  })
  .meta({
    type: ['object', 'null'],
    propertyNames: schema.propertyNames,
    additionalProperties: { ...entrySchema, type: ['string', 'null'] },
  })
  .describe(
    'Sets these entries and keeps all others. null removes an entry; null for the object removes all.',
  )

/** The object that `gatherMetadata` makes of `metadata[NAME]=VALUE` in a query. */
export const metadataFilter = object
  .transform((entries, context) => {
    checkNumber(entries, maxFilters, context)
    return checkEntries(entries, context, (named, entry) =>
      Array.isArray(entry) ? 'must be sent once' : problemOfEntry(named, entry),
    )
  })
  .meta({ ...schema, maxProperties: maxFilters })
  .describe('Licences that have these entries: `metadata[NAME]=VALUE`, for at most three names.')

/** The entries in an answer. */
export const metadataInAnswer = z.record(z.string(), z.string())

/** Collects the parameters `metadata[NAME]` of a query in one object `metadata`. */
export function gatherMetadata(query: unknown): unknown {
  const parameters = Object.entries(query as Record<string, unknown>)
  const entries: typeof parameters = []
  const others: typeof parameters = []
  for (const [parameter, sent] of parameters) {
    const named = /^metadata\[(.*)\]$/s.exec(parameter)?.[1]
    if (named === undefined) others.push([parameter, sent])
    else entries.push([named, sent])
  }
  if (entries.length === 0 || others.some(([parameter]) => parameter === 'metadata')) return query
  return Object.fromEntries([...others, ['metadata', Object.fromEntries(entries)]])
}

function checkNumber(entries: object, max: number, context: z.RefinementCtx): void {
  if (Object.keys(entries).length <= max) return
  context.addIssue({ code: 'custom', message: `must have at most ${max} entries` })
}

/** Reports each wrong entry. */
function checkEntries(
  entries: object,
  context: z.RefinementCtx,
  problemOf: (named: string, entry: unknown) => string | undefined,
): Metadata {
  for (const [named, entry] of Object.entries(entries)) {
    const message = problemOf(named, entry)
    if (message !== undefined) context.addIssue({ code: 'custom', path: [named], message })
  }
  return entries as Metadata
}

function problemOfEntry(named: string, entry: unknown): string | undefined {
  return problemOfType(entry) ?? problemOfMetadata({ [named]: entry as string })?.problem
}

function problemOfType(entry: unknown): string | undefined {
  if (typeof entry !== 'string') return 'must be a string'
  return isStorable(entry) ? undefined : unstorable
}
