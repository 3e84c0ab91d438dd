import { printable } from '@licensing/terminal/printable'
import { Document, Scalar, visit } from 'yaml'
import type { Command } from '../command/command.ts'
import { readCatalogue } from './catalogue.ts'
import type { Catalogue } from './catalogue.ts'

export const exportCatalogue: Command = {
  name: 'export',
  summary: 'Print the application’s entitlements and plans as a file for apply',
  options: {},
  examples: ['export > licensing.yaml', 'export --json'],
  async run({ backend, appId, out }) {
    const file = fileOf(await readCatalogue(backend, await appId()))
    out.result(file, yamlOf(file))
    return 0
  },
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
  // A quoted text stands on one line, with its line breaks as escapes.
  return document
    .toString({ lineWidth: 0, doubleQuotedMinMultiLineLength: Number.POSITIVE_INFINITY })
    .trimEnd()
    .split('\n')
}

/** Sorted by key and code, so that two exports differ only where the catalogue does. */
export function fileOf({ definitions, plans }: Catalogue) {
  const byText = (a: string, b: string) => (a < b ? -1 : 1)
  return {
    entitlements: [...definitions.values()]
      .toSorted((a, b) => byText(a.key, b.key))
      .map(({ key, kind, display_name, default: value }) => ({ key, kind, display_name, default: value })),
    plans: [...plans.values()]
      .toSorted((a, b) => byText(a.code, b.code))
      .map(({ code, name, status, values }) => ({
        code,
        name,
        status,
        values: Object.fromEntries([...values].toSorted(([a], [b]) => byText(a, b))),
      })),
  }
}
