import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { expect, test } from 'vitest'

/** Words to avoid, each with its replacements. */
const avoided: [RegExp, string][] = [
  [/\btold\b/i, 'reported, sent, notified'],
  [/\banew\b/i, 'again, recreated'],
  [/\bfor ever\b/i, 'forever, permanently, until it succeeds'],
  [/\bstrangers?\b/i, 'unauthenticated caller, another account'],
  [/\bwhoever\b/i, 'any caller that, the one that'],
  [/\baway\b/i, 'unavailable, unreachable'],
  [/\b(?:take|takes|taking|taken|took) in\b/i, 'processed, consumed'],
  [/\b(?:hold|holds|holding|held) up\b/i, 'blocks, delays'],
  [/\bhouses?\b/i, 'system, layout, service'],
  [/\b(?:is|are) well\b(?!-)/i, 'is valid, is healthy'],
  [/\ba part that\b|\bpart is away\b/i, 'dependency'],
  [/\bdeaf\b|\bto who\b/i, 'answers nothing, to the reader'],
  [/\bhalf a character\b/i, 'unpaired surrogate'],
  [/^\/[/*]+ *What\b/, 'the noun: the requests that …, the value of …'],
]

// Migrations must not be edited after a release.
const exempt = [/\/migrations\//, /\/gen\//, /plain-words\.test\.ts$/]

/** The prose of a source: comments, and strings of more than one word. Names are ignored. */
function proseOf(source: string): string[] {
  const tokens = /\/\/.*|\/\*[\s\S]*?\*\/|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g
  return [...source.matchAll(tokens)]
    .map(([token]) => token.replaceAll(/\$\{[^}]*\}|`\w+`/g, '').replaceAll(/\s*\n\s*\*?\s*/g, ' '))
    .filter((text) => text.startsWith('/') || /\S\s+\S/.test(text))
}

function avoidedIn(file: string, text: string): string[] {
  const prose =
    file.endsWith('.ts') || file.endsWith('.proto') ? proseOf(text) : [text.replaceAll(/\s+/g, ' ')]
  return prose.flatMap((passage) =>
    avoided.flatMap(([pattern, instead]) => {
      const found = pattern.exec(passage)
      if (!found) return []
      const around = passage.slice(Math.max(0, found.index - 30), found.index + 30)
      return [`${file}: …${around}… (write: ${instead})`]
    }),
  )
}

test('comments, texts and documents use present-day words', () => {
  const files = execFileSync('git', ['ls-files', '*.ts', '*.md', '*.proto', '*.yaml', '*.sql'], {
    cwd: CHECKOUT,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((file) => file !== '' && existsSync(join(CHECKOUT, file)))
    .filter((file) => !exempt.some((pattern) => pattern.test(file)))
  expect(files.length).toBeGreaterThan(500)
  expect(files.flatMap((file) => avoidedIn(file, readFileSync(join(CHECKOUT, file), 'utf8')))).toEqual([])
})

test('a word to avoid is found in a comment, a text and a document, and not in a name', () => {
  expect(avoidedIn('a.ts', '/** Waits for\n * ever, and is told. */')).toHaveLength(2)
  expect(avoidedIn('a.ts', 'wait() // for ever')).toHaveLength(1)
  expect(avoidedIn('a.ts', "test('NATS is away', () => {})")).toHaveLength(1)
  expect(avoidedIn('a.ts', '/** What is sent. */')).toHaveLength(1)
  expect(avoidedIn('a.md', 'It is\nmade anew.')).toHaveLength(1)
  expect(avoidedIn('a.ts', "const away = anew('told')")).toEqual([])
})
