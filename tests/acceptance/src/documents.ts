import { CHECKOUT } from '@licensing/local-servers/services'
import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A fenced block of a document. */
export interface Block {
  readonly language: string
  /** The file that the block is written to: ```` ```js server.mjs ````. */
  readonly file: string | undefined
  readonly code: string
}

/** The documents that `guides.test.ts` runs, each as one script. */
export const scripts = [
  ...['quickstart', 'entitlements', 'licences', 'customers', 'payments', 'products', 'offline'].map(guide),
  ...['people', 'import', 'testing', 'cli', 'production'].map(guide),
  'README.md',
  'cli/README.md',
  'docs/operations/kubernetes.md',
  'docs/operations/lost-webhook.md',
]

/** Documents with the languages of which another test runs every block. */
export const runElsewhere: Readonly<Record<string, readonly string[]>> = {
  // sdk/suite/src/guides.test.ts
  [guide('quickstart')]: ['python', 'go', 'java', 'rust', 'cpp', 'csharp'],
  [guide('products')]: ['python', 'go', 'java', 'rust', 'c', 'cpp', 'csharp'],
  [guide('offline')]: ['python', 'go', 'java', 'rust', 'cpp', 'csharp'],
  // sdk/suite/src/webhook-recipes.test.ts
  [guide('webhooks')]: ['ts', 'python', 'go', 'java', 'rust', 'cpp', 'csharp', 'php', 'ruby'],
  // backend-clients.full.test.ts
  [guide('backends')]: ['sh', 'python', 'go'],
  // sdk/python/tests/test_readme.py
  'sdk/python/README.md': ['python'],
  // sdk/go, with `go test`; sdk/java, with `mvn test`; sdk/rust, with `cargo test`
  'sdk/go/README.md': ['go'],
  'sdk/java/README.md': ['java'],
  'sdk/rust/README.md': ['rust', 'c', 'cpp', 'csharp'],
  // formats.test.ts
  [guide('formats')]: ['python'],
  // sdk/suite/src/guides.test.ts; tests/integration/src/development-image.test.ts
  [guide('testing')]: ['ts', 'python', 'go', 'java', 'rust', 'cpp', 'csharp'],
}

function guide(name: string): string {
  return `docs/guides/${name}.md`
}

/** All documents of the repository, from its root. A link to one is not another. */
export function documents(): string[] {
  const listed = execFileSync('git', ['ls-files', '*.md'], { cwd: CHECKOUT, encoding: 'utf8' })
  const isDocument = (file: string) =>
    existsSync(join(CHECKOUT, file)) && !lstatSync(join(CHECKOUT, file)).isSymbolicLink()
  return listed.split('\n').filter((file) => file !== '' && isDocument(file))
}

const fence = /^```(\w*)(?:,\w+)?(?: (\S+))?\n([^]*?)^```$/gm

/** The blocks of a document, in order. */
export function blocksOf(document: string): Block[] {
  const text = readFileSync(join(CHECKOUT, document), 'utf8')
  return [...text.matchAll(fence)].map(([, language = '', file, code = '']) => ({ language, file, code }))
}
