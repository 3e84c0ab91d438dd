import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { LicensingBackend, Schemas } from '@licensing/sdk/backend'
import { printable } from '@licensing/terminal/printable'
import { Document, Scalar, visit } from 'yaml'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'

export type Definition = Schemas['EntitlementDefinition']
export type Plan = Schemas['Plan']

/** The fields that a vendor gives a plan, besides its values of entitlements. */
export type PlanField = Exclude<
  keyof Plan,
  'id' | 'status' | 'active_licences' | 'entitlements' | 'created_at' | 'updated_at'
>

/** Compiles only if the fields of a plan are complete, so a new field of the API cannot be forgotten. */
export const withEveryField = <Fields extends object>(
  fields: Fields &
    (PlanField extends keyof Fields ? unknown : Record<Exclude<PlanField, keyof Fields>, unknown>),
): Fields => fields

/** The entitlement definitions of an application, and its plans with their overrides by key. */
export interface Catalogue {
  readonly definitions: ReadonlyMap<string, Definition>
  readonly plans: ReadonlyMap<string, Plan & { readonly values: ReadonlyMap<string, string> }>
}

export async function readCatalogue(backend: LicensingBackend, appId: string): Promise<Catalogue> {
  const path = { app_id: appId }
  const definitions = new Map<string, Definition>()
  const keys = new Map<string, string>()
  for await (const definition of backend.rows('/v1/apps/{app_id}/entitlement-defs', { path })) {
    definitions.set(definition.key, definition)
    keys.set(definition.id, definition.key)
  }
  const plans = new Map<string, Plan & { values: Map<string, string> }>()
  for await (const plan of backend.rows('/v1/apps/{app_id}/plans', { path })) {
    const values = plan.entitlements.flatMap(({ entitlement_def_id: id, value }): [string, string][] => {
      const key = keys.get(id)
      return key === undefined ? [] : [[key, value]]
    })
    plans.set(plan.code, { ...plan, values: new Map(values) })
  }
  return { definitions, plans }
}

export function exportCommand(program: CommandUnknownOpts, { out, service }: Context): void {
  program
    .command('export')
    .description('Print the application’s entitlements and plans as a file for apply')
    .addHelpText('after', examples('export > licensing.yaml', 'export --json'))
    .action(async () => {
      const { backend, appId } = await service()
      const file = fileOf(await readCatalogue(backend, await appId()))
      out.result(file, yamlOf(file))
    })
}

/** The file in lines. A text with control characters is quoted, so that the printed escapes are YAML escapes. */
function yamlOf(file: object): string[] {
  const document = new Document(file)
  visit(document, {
    Scalar: (_, scalar) => {
      if (typeof scalar.value === 'string' && printable(scalar.value) !== scalar.value) {
        scalar.type = Scalar.QUOTE_DOUBLE
      }
    },
  })
  // A quoted text is on one line, with its line breaks escaped.
  return document
    .toString({ lineWidth: 0, doubleQuotedMinMultiLineLength: Number.POSITIVE_INFINITY })
    .trimEnd()
    .split('\n')
}

/** Sorted by key and code, so that exports of equal catalogues are equal. */
function fileOf({ definitions, plans }: Catalogue) {
  const byText = (a: string, b: string) => (a < b ? -1 : 1)
  return {
    entitlements: [...definitions.values()]
      .toSorted((a, b) => byText(a.key, b.key))
      .map(({ key, kind, display_name, default: value }) => ({ key, kind, display_name, default: value })),
    plans: [...plans.values()]
      .toSorted((a, b) => byText(a.code, b.code))
      .map(({ code, name, status, values, trial_days: trialDays, metadata }) =>
        withEveryField({
          code,
          name,
          status,
          values: Object.fromEntries([...values].toSorted(([a], [b]) => byText(a, b))),
          ...(trialDays !== null && { trial_days: trialDays }),
          ...(Object.keys(metadata).length > 0 && {
            metadata: Object.fromEntries(Object.entries(metadata).toSorted(([a], [b]) => byText(a, b))),
          }),
        }),
      ),
  }
}
