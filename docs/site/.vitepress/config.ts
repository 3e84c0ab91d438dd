import { checkout } from '@licensing/builds/build-once'
import { listInputs } from '@licensing/builds/list-inputs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { readGuide, sections } from '../contents.ts'
import { renderDiagram } from './diagram.ts'
import { groupLanguages } from './languages.ts'

const docs = join(checkout, 'docs')

/** The id of a heading, by the rule that code hosts use as well. */
function slugify(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-')
}

export default defineConfig({
  title: 'Licensing',
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  cleanUrls: true,
  // Below a path that the gateway serves.
  assetsDir: 'docs/guides/assets',
  // Pages of the gateway that are not built here.
  ignoreDeadLinks: [/^\/(?:docs|downloads|portal|openapi\.json)/],
  transformPageData: ({ relativePath }) => {
    const path = relativePath.replace(/^docs\/|\.md$/g, '')
    const isListed = sections.some(({ pages }) => pages.includes(path))
    return { description: isListed ? readGuide(docs, path).summary.replaceAll(/[`*]/g, '') : 'Guides' }
  },
  themeConfig: {
    logoLink: '/docs/guides/',
    nav: [
      { text: 'Guides', link: '/docs/guides/', activeMatch: '^/docs/' },
      { text: 'API reference', link: '/docs', target: '_self' },
      { text: 'Downloads', link: '/downloads/', target: '_self' },
      { text: 'Portal', link: '/portal', target: '_self' },
    ],
    sidebar: sections.map(({ title, pages }) => ({
      text: title,
      items: pages
        .map((path) => readGuide(docs, path))
        .map((guide) => ({ text: guide.title, link: `/docs/${guide.path}` })),
    })),
    outline: [2, 3],
    search: { provider: 'local' },
  },
  markdown: {
    // HTML in a guide is shown as text.
    html: false,
    anchor: { slugify },
    config: (markdown) => {
      groupLanguages(markdown)
      const fence = markdown.renderer.rules.fence!
      markdown.renderer.rules.fence = (tokens, at, options, env, self) => {
        const { info, content } = tokens[at]!
        const [language, file] = info.split(' ')
        if (language === 'mermaid') return renderDiagram(content)
        const name =
          file === undefined ? '' : `<div class="file-name">${markdown.utils.escapeHtml(file)}</div>`
        return name + fence(tokens, at, options, env, self)
      }
    },
  },
  vite: {
    plugins: [listInputs(checkout)],
    // A data: address would need its own entry in the content security policy.
    build: { assetsInlineLimit: 0 },
  },
})
