import { stringify } from 'yaml'
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
    out.result(file, stringify(file).trimEnd())
    return 0
  },
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
