import type { EntitlementDefinition } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { optional } from '../../fields/optional.ts'
import { lengths, text } from '../../fields/text.ts'

const displayName = text(textLimits.name).meta({ examples: ['Export to PDF'] })
const value = z
  .string()
  .regex(/^(?:true|false|0|-?[1-9][0-9]{0,14})$/, 'must be true or false, or an integer written as a string')
  .meta({ examples: ['false'] })
const kind = z.enum(closedSets.entitlementKind)

export const entitlementDefSchema = z
  .strictObject({
    id: id('ent'),
    key: z.string().meta({ examples: ['export_pdf'] }),
    kind,
    display_name: z.string(),
    default: z.string().describe('Value for plans that do not set their own.'),
  })
  .meta({ id: 'EntitlementDefinition' })

export const createEntitlementDefBody = z
  .strictObject({
    key: text(textLimits.entitlementKey)
      .regex(/^[a-z][a-z0-9_]*$/, 'must match ^[a-z][a-z0-9_]*$')
      .meta({ ...lengths(textLimits.entitlementKey), examples: ['export_pdf'] })
      .describe('The key that installed products use. It cannot be changed.'),
    kind,
    display_name: optional(displayName).describe('Default: the key.'),
    default: optional(value).describe(
      '`true` or `false` for a feature, an integer for a limit. Default: `false` or `0`.',
    ),
  })
  .superRefine((definition, context) => {
    const { kind, default: value } = definition
    if (value === undefined || isValue(kind, value)) return
    const message = kind === 'feature' ? 'must be true or false' : 'must be an integer written as a string'
    context.addIssue({ code: 'custom', path: ['default'], message })
  })

export const updateEntitlementDefBody = z.strictObject({
  display_name: optional(displayName),
  default: optional(value),
})

export function entitlementDefJson(definition: EntitlementDefinition): z.output<typeof entitlementDefSchema> {
  return {
    id: definition.id,
    key: definition.key,
    kind: readMember('entitlementKind', definition.kind),
    display_name: definition.displayName,
    default: definition.default,
  }
}

function isValue(kind: EntitlementKind, value: string): boolean {
  return kind === 'feature' ? value === 'true' || value === 'false' : /^(?:0|-?[1-9][0-9]{0,14})$/.test(value)
}
