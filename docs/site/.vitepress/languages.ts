import type { MarkdownRenderer } from 'vitepress'

/** Headings that begin the same section in another language. */
const LANGUAGES = ['TypeScript', 'Python', 'Go', 'Java', 'Rust', 'C', 'C++', 'C#', 'PHP', 'Ruby']

type State = Parameters<Parameters<MarkdownRenderer['core']['ruler']['push']>[1]>[0]
type Token = State['tokens'][number]

/**
 * Makes tabs of sections whose headings are names of languages and that follow each other: in Markdown they stay
 * sections.
 */
export function groupLanguages(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push('languages', (state) => {
    const { tokens } = state
    const grouped: Token[] = []
    const html = (content: string) => Object.assign(new state.Token('html_block', '', 0), { content })
    let at = 0
    while (at < tokens.length) {
      const sections = sectionsAt(tokens, at)
      if (sections.length < 2) {
        grouped.push(tokens[at++]!)
        continue
      }
      const names = sections.map(({ name }) => name)
      grouped.push(html(`<Languages :names='${JSON.stringify(names)}'>`))
      for (const [index, { end }] of sections.entries()) {
        grouped.push(html(`<template #s${index}>`), ...tokens.slice(at, end), html('</template>'))
        at = end
      }
      grouped.push(html('</Languages>'))
    }
    state.tokens = grouped
  })
}

/** The sections of languages that begin at a heading: at its level, one after the other. */
function sectionsAt(tokens: readonly Token[], start: number): { name: string; end: number }[] {
  const sections = []
  const level = tokens[start]?.tag ?? ''
  let at = start
  while (tokens[at]?.type === 'heading_open' && tokens[at]?.tag === level) {
    const name = tokens[at + 1]?.content ?? ''
    if (!LANGUAGES.includes(name)) break
    const next = tokens.findIndex(
      (token, index) => index > at && token.type === 'heading_open' && token.tag <= level,
    )
    at = next < 0 ? tokens.length : next
    sections.push({ name, end: at })
  }
  return sections
}
