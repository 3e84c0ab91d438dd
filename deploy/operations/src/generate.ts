import { CHECKOUT } from '@licensing/local-servers/services'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'prettier'
import { parse, stringify } from 'yaml'
import { configurationPage } from './configuration.ts'
import { dashboardOf, dashboards } from './dashboards.ts'

const folder = 'deploy/operations'

/** The contents of all generated files, by their path. */
export async function generated(): Promise<Record<string, string>> {
  const json = Object.entries(dashboards).map(([name, rows]) => [
    `${folder}/dashboards/${name}.json`,
    `${JSON.stringify(dashboardOf(name, rows))}\n`,
  ])
  const rules = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'licensing' },
    spec: parse(readFileSync(join(CHECKOUT, folder, 'rules.yaml'), 'utf8')) as object,
  }
  const files = {
    ...(Object.fromEntries(json) as Record<string, string>),
    [`${folder}/prometheus-rule.yaml`]: `# Generated from rules.yaml.\n${stringify(rules, { lineWidth: 0 })}`,
    'docs/operations/configuration.md': configurationPage(),
  }
  const style = { singleQuote: true, printWidth: 110 }
  return Object.fromEntries(
    await Promise.all(
      Object.entries(files).map(async ([file, text]) => [
        file,
        await format(text, { ...style, filepath: file }),
      ]),
    ),
  ) as Record<string, string>
}

if (import.meta.main) {
  for (const [file, text] of Object.entries(await generated())) writeFileSync(join(CHECKOUT, file), text)
}
