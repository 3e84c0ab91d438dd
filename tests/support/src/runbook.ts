import { readFile } from 'node:fs/promises'

/** The blocks of a section of the runbook, without its subsections: commands, unless another language is given. */
export async function blocksOfRunbook(heading: string, language = 'text'): Promise<string[]> {
  return blocksOfPage('runbook', heading, language)
}

/** The blocks of a section of a page for operators. */
export async function blocksOfPage(page: string, heading: string, language = 'text'): Promise<string[]> {
  const file = new URL(`../../../docs/operations/${page}.md`, import.meta.url)
  const sections = (await readFile(file, 'utf8')).split(/^##+ /m)
  const section = sections.find((each) => each.startsWith(`${heading}\n`))
  if (section === undefined) throw new Error(`${page}.md has no section “${heading}”`)
  return [...section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, code]) => code!)
}
