import { readFile } from 'node:fs/promises'

const runbook = new URL('../../../docs/operations/runbook.md', import.meta.url)

/** The blocks of a section of the runbook, without its subsections: commands, unless another language is given. */
export async function blocksOfRunbook(heading: string, language = 'text'): Promise<string[]> {
  const sections = (await readFile(runbook, 'utf8')).split(/^##+ /m)
  const section = sections.find((each) => each.startsWith(`${heading}\n`))
  if (section === undefined) throw new Error(`the runbook has no section “${heading}”`)
  return [...section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, code]) => code!)
}
