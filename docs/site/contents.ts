import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** All pages, by their path in `docs`, in the order in which they are best read. */
export const sections: readonly { readonly title: string; readonly pages: readonly string[] }[] = [
  { title: 'Start', pages: ['guides/quickstart', 'guides/concepts'] },
  { title: 'Webhooks', pages: ['guides/webhooks', 'guides/events'] },
  {
    title: 'Licences and payments',
    pages: [
      'guides/lifecycle',
      'guides/entitlements',
      'guides/licences',
      'guides/customers',
      'guides/payments',
      'guides/import',
      'guides/shops/paddle',
      'guides/shops/lemon-squeezy',
      'guides/shops/fastspring',
      'guides/shops/gumroad',
    ],
  },
  {
    title: 'Your product',
    pages: [
      'guides/products',
      'guides/python',
      'guides/go',
      'guides/java',
      'guides/rust',
      'guides/offline',
      'guides/formats',
    ],
  },
  {
    title: 'Tools and reference',
    pages: [
      'guides/backends',
      'guides/cli',
      'guides/testing',
      'guides/errors',
      'guides/versioning',
      'guides/changelog',
    ],
  },
  {
    title: 'Operation',
    pages: [
      'guides/people',
      'guides/production',
      'operations/kubernetes',
      'operations/configuration',
      'operations/monitoring',
      'operations/upgrades',
      'operations/runbook',
      'operations/lost-webhook',
      'operations/scaling',
      'operations/security',
      'operations/connected-accounts',
    ],
  },
]

export interface Guide {
  /** In `docs`, without `.md`. */
  readonly path: string
  readonly title: string
  /** Its first paragraph. */
  readonly summary: string
}

/** @param docs the folder of the documents */
export function readGuide(docs: string, path: string): Guide {
  const text = readFileSync(join(docs, `${path}.md`), 'utf8')
  const [heading = '', summary = ''] = text.split(/\n{2,}/)
  return { path, title: heading.replace(/^# /, ''), summary: summary.replaceAll('\n', ' ') }
}

/** The page that lists all guides. */
export function listPage(docs: string): string {
  const lists = sections.map(({ title, pages }) => {
    const rows = pages.map((path) => readGuide(docs, path)).map((guide) => row(guide, '/docs/'))
    return `## ${title}\n\n${rows.join('\n')}`
  })
  return `# Guides\n\nHow to use the licensing service, by task.\n\n${lists.join('\n\n')}\n`
}

/** `/llms.txt`: all guides for machines, as Markdown, relative to itself. The gateway adds the packages. */
export function overview(docs: string): string {
  const lists = sections.map(({ title, pages }) => {
    const rows = pages.map((path) => readGuide(docs, path)).map((guide) => row(guide, 'docs/', '.md'))
    return `## ${title}\n\n${rows.join('\n')}`
  })
  return `# Licensing

> A service that a software vendor runs to sell and control licences: plans and entitlements, licences and their
> lifecycle, payments' consequences, signed webhooks, and tokens for installed products that work offline.

${lists.join('\n\n')}

## API reference

- [OpenAPI document](openapi.json): every operation, field, error and webhook event
`
}

function row({ path, title, summary }: Guide, before: string, after = ''): string {
  return `- [${title}](${before}${path}${after}): ${summary}`
}
