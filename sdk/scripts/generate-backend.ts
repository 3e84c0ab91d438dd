import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Writes the types of the REST API anew: run it when `gateway/openapi.json` changed. The generator is not among the
 * dependencies because it needs the API of a compiler older than this workspace's.
 */
const GENERATOR = 'openapi-typescript@7.13.0'
const COMPILER = 'typescript@5.9.3'

const sdk = dirname(import.meta.dirname)
const document = join(sdk, '..', 'gateway', 'openapi.json')
const target = join(sdk, 'src', 'backend', 'gen', 'api.ts')

const command = ['--yes', '--package', GENERATOR, '--package', COMPILER, 'openapi-typescript', document]
const types = execFileSync('npx', command, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
const hash = createHash('sha256').update(readFileSync(document)).digest('hex')
mkdirSync(dirname(target), { recursive: true })
writeFileSync(target, `// Generated from gateway/openapi.json, sha256 ${hash}\n${types}`)
execFileSync('prettier', ['--log-level', 'warn', '--write', target], { stdio: 'inherit' })
