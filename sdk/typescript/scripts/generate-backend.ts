import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hashOf, readBackendDocument } from './backend-document.ts'

/**
 * Regenerates the types of the REST API: run it after a change of `gateway/openapi.json`. The generator is not among the
 * dependencies because it needs the API of a compiler older than this workspace's.
 */
const GENERATOR = 'openapi-typescript@7.13.0'
const COMPILER = 'typescript@5.9.3'

const document = readBackendDocument()
const types = execFileSync(
  'npx',
  ['--yes', '--package', GENERATOR, '--package', COMPILER, 'openapi-typescript'],
  {
    input: JSON.stringify(document),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  },
)
const target = join(import.meta.dirname, '..', 'src', 'backend', 'gen', 'api.ts')
mkdirSync(dirname(target), { recursive: true })
writeFileSync(target, `// Generated from gateway/openapi.json, sha256 ${hashOf(document)}\n${types}`)
execFileSync('prettier', ['--log-level', 'warn', '--write', target], { stdio: 'inherit' })
