import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { expect, test } from 'vitest'

const sources = execFileSync('git', ['ls-files', '*.ts', '*.tsx', '*.mjs', '*.sql', '*.proto'], {
  cwd: CHECKOUT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => file !== '' && !/\/gen\//.test(file) && existsSync(join(CHECKOUT, file)))

/** The text of comments over several lines, as one line. */
const textOf = (file: string) =>
  readFileSync(join(CHECKOUT, file), 'utf8').replaceAll(/\s*\n\s*(?:\*|\/\/|--)?\s*/g, ' ')

function headingsOf(document: string): string[] {
  const text = readFileSync(join(CHECKOUT, document), 'utf8')
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
}

test('each rule that a comment cites stands in a document of this repository, under the cited heading', () => {
  const unresolved: string[] = []
  let resolved = 0
  for (const file of sources) {
    for (const [citation, document = '', heading = ''] of textOf(file).matchAll(
      /\b(docs\/[\w/.-]+\.md), "([^"]+)"/g,
    )) {
      const isThere = existsSync(join(CHECKOUT, document)) && headingsOf(document).includes(heading)
      if (isThere) resolved += 1
      else unresolved.push(`${file}: ${citation}`)
    }
  }
  expect(unresolved).toEqual([])
  expect(resolved).toBeGreaterThan(20)
})

test('no comment cites a document that is not in the repository', () => {
  const foreign = /\b(?:interface|decisions|additions),? (?:sections? )?\d+(?:\.\d+)*[ ,.;:)]/i
  expect(sources.filter((file) => foreign.test(textOf(file)) && !file.endsWith('citations.test.ts'))).toEqual(
    [],
  )
})
