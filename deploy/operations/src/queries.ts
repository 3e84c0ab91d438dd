import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { dashboards } from './dashboards.ts'

export const rulesFile = new URL('../rules.yaml', import.meta.url)

interface Rule {
  alert?: string
  record?: string
  expr: string
  labels?: Record<string, string>
}

/** All rules of rules.yaml. */
export const rules = (
  parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: Rule[] }[] }
).groups.flatMap((group) => group.rules)

/** Every query of the rules and the dashboards, with its place. */
export const queries: { place: string; query: string }[] = [
  ...rules.map(({ alert, record, expr }) => ({ place: alert ?? record!, query: expr })),
  ...Object.entries(dashboards).flatMap(([dashboard, rows]) =>
    Object.values(rows)
      .flat()
      .flatMap((panel) =>
        Object.values(panel.queries).map((query) => ({ place: `${dashboard}, ${panel.title}`, query })),
      ),
  ),
]

/** The metrics that a query reads, except those of recording rules. The series of a histogram count as the histogram. */
export function metricsIn(query: string): string[] {
  const names = query
    .replaceAll(/\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)/g, ' ')
    .match(/(?<![\w:.])[a-z_]\w*(?![\w:]|\s*\()/g)
  const words = new Set(['and', 'or', 'unless', 'offset'])
  return [...new Set((names ?? []).filter((name) => !words.has(name)))].map((name) =>
    name.replace(/_(bucket|count|sum)$/, ''),
  )
}
