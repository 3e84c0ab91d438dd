import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance } from 'fastify'
import MarkdownIt from 'markdown-it'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { escapeHtml, sendPage } from './page.ts'

/** The guides, in the order in which they are best read. */
export const guideNames = [
  'quickstart',
  'concepts',
  'events',
  'webhooks',
  'lifecycle',
  'entitlements',
  'licences',
  'payments',
  'products',
  'offline',
  'import',
  'errors',
  'testing',
  'cli',
  'production',
] as const

interface Guide {
  readonly name: string
  readonly title: string
  /** Its first paragraph. */
  readonly summary: string
  readonly text: string
}

/** `/docs/guides`: docs/guides as pages, each also as the Markdown that it is written in; and `/llms.txt`, which lists them. */
export function mountGuides(app: FastifyInstance, folder: string | undefined): void {
  const guides = new Map(readGuides(folder).map((guide) => [guide.name, guide]))
  const find = (name: string) => {
    const guide = guides.get(name)
    if (guide) return guide
    const why = guides.size === 0 ? 'this gateway was built without the guides' : `there is no guide ${name}`
    throw new ServiceError('not_found', why)
  }
  app.get('/docs/guides', (_request, reply) => {
    if (guides.size === 0) find('')
    return sendPage(reply, 'Guides', listPage([...guides.values()]))
  })
  app.get('/docs/guides/', (_request, reply) => reply.redirect('/docs/guides', 308))
  app.get<{ Params: { name: string } }>('/docs/guides/:name', (request, reply) => {
    const { name } = request.params
    if (name.endsWith('.md')) {
      const { text } = find(name.slice(0, -3))
      return reply.type('text/markdown; charset=utf-8').header('x-content-type-options', 'nosniff').send(text)
    }
    const { title, text } = find(name)
    return sendPage(reply, escapeHtml(title), markdown.render(text))
  })
  app.get('/llms.txt', (_request, reply) =>
    reply.type('text/plain; charset=utf-8').send(overview([...guides.values()])),
  )
}

function readGuides(folder: string | undefined): Guide[] {
  if (folder === undefined || !existsSync(folder)) return []
  return guideNames.map((name) => {
    const text = readFileSync(join(folder, `${name}.md`), 'utf8')
    const [heading = '', summary = ''] = text.split(/\n{2,}/)
    return { name, title: heading.replace(/^# /, ''), summary: summary.replaceAll('\n', ' '), text }
  })
}

// HTML in a guide is shown as text.
const markdown = new MarkdownIt({ html: false, linkify: false })
// Guides link to each other as files, so that they can be read in the repository too.
markdown.core.ruler.push('links-to-pages', ({ tokens }) => {
  for (const { children } of tokens) {
    for (const token of children ?? []) {
      const href = token.attrGet('href')
      if (href !== null) token.attrSet('href', String(href).replace(/^(\w+)\.md(?=#|$)/, '/docs/guides/$1'))
    }
  }
})
// A heading can be linked to, by its words.
markdown.core.ruler.push('headings-with-ids', ({ tokens }) => {
  for (const [at, token] of tokens.entries()) {
    if (token.type !== 'heading_open') continue
    const words = (tokens[at + 1]?.content ?? '').toLowerCase()
    token.attrSet('id', words.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-'))
  }
})

function listPage(guides: readonly Guide[]): string {
  const rows = guides.map(
    ({ name, title, summary }) =>
      `<li><a href="/docs/guides/${name}">${escapeHtml(title)}</a>: ${markdown.renderInline(summary)}</li>`,
  )
  return `<h1>Guides</h1>\n<ul>\n${rows.join('\n')}\n</ul>`
}

function overview(guides: readonly Guide[]): string {
  const links = guides.map(({ name, title, summary }) => `- [${title}](docs/guides/${name}.md): ${summary}`)
  return `# Licensing

> A service that a software vendor runs to sell and control licences: plans and entitlements, licences and their
> lifecycle, payments' consequences, signed webhooks, and tokens for installed products that work offline.

## Guides

${links.join('\n')}

## Reference

- [OpenAPI document](openapi.json): every operation, field, error and webhook event
- [Downloads](downloads/): the SDK, the command line and the test helper, as npm packages
`
}
