import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { blocksOf } from './documents.ts'
import { revocations } from './published.ts'
import type { Revocations } from './published.ts'
import { givenVendor } from './vendor.ts'

const guide = 'docs/guides/formats.md'

const python = (args: readonly string[], environment: NodeJS.ProcessEnv = {}, input = '') =>
  spawnSync('python3', args, {
    env: { ...process.env, ...environment },
    input,
    encoding: 'utf8',
    timeout: 120_000,
  })

/** The environment in which the program can import its package; undefined if the package is not available. */
function findPackage(folder: string): NodeJS.ProcessEnv | undefined {
  if (python(['-c', 'import cryptography']).status === 0) return {}
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', folder]
  if (python([...pip, 'cryptography']).status === 0) return { PYTHONPATH: folder }
  return undefined
}

// Verifies the document and each document that differs from it in one bit. `accepted` lists the positions of the changes that were not refused.
const flipping = `
import json, sys
from verify import verify

text, *rest = json.load(sys.stdin)
claims = verify(text, *rest)
accepted = []
for at in range(len(text)):
    for bit in range(7):
        changed = text[:at] + chr(ord(text[at]) ^ 1 << bit) + text[at + 1 :]
        try:
            verify(changed, *rest)
            accepted.append([at, bit])
        except Exception:
            pass
print(json.dumps({"claims": claims, "accepted": accepted, "bytes": len(text)}))
`

interface Flipped {
  claims: Record<string, unknown>
  accepted: [at: number, bit: number][]
  bytes: number
}

const isThere = python(['--version']).status === 0
if (!isThere) process.stdout.write('skipped: no python3 for the program of the formats\n')

describe.skipIf(!isThere)('the program of the guide to formats', () => {
  let stack: Stack
  let folder: TemporaryFolder
  let environment: NodeJS.ProcessEnv | undefined

  beforeAll(async () => {
    folder = await makeTemporaryFolder()
    stack = await sharedStack()
    environment = findPackage(join(folder.path, 'packages'))
    const [program] = blocksOf(guide).filter(({ file }) => file === 'verify.py')
    await writeFile(join(folder.path, 'verify.py'), program!.code)
    await writeFile(join(folder.path, 'flip.py'), flipping)
  })
  afterAll(async () => {
    await stack[Symbol.asyncDispose]()
    await folder[Symbol.asyncDispose]()
  })

  test('verifies a token, a licence file and a revocation list of the service, and refuses each with any byte changed', async (context) => {
    if (environment === undefined) {
      const why = 'the package cryptography is not installed and PyPI cannot be reached'
      process.stdout.write(`skipped: ${why}\n`)
      return context.skip(why)
    }
    const vendor = await givenVendor(stack)
    const other = await givenVendor(stack)
    const plan = await vendor.plan()
    const licence = await vendor.issue(plan.id)
    const revoked = await vendor.issue(plan.id)
    await vendor.verb('revoke', revoked.id)
    const machine = { fingerprint: 'machine-1', host: 'a.example.com', product_version: '1.0.0' }
    const { api } = stack
    const activation = await api.post<{ token: string; activation_id: string }>('/v1/activations', {
      key: null,
      body: { licence_key: licence.key, ...machine },
    })
    const offline = await api.post<{ file: string }>(`${vendor.app}/offline-activations`, {
      body: { licence_key: licence.key, ...machine, fingerprint: 'machine-2', days: 30 },
    })
    const list: Revocations = (await revocations(vendor)).body
    const keySet = await api.get<{ signed: string[] }>(`${vendor.app}/jwks.json`, { key: null })
    const of = async ({ app }: { app: string }) => (await api.get<{ root_key: string }>(app)).body.root_key
    const root = await of(vendor)
    const { signed } = keySet.body
    const flip = (...input: unknown[]) => {
      const done = python([join(folder.path, 'flip.py')], environment, JSON.stringify(input))
      expect(done.stderr).toBe('')
      return JSON.parse(done.stdout) as Flipped
    }

    const token = flip(activation.body.token, root, vendor.appId, signed)
    expect(token.claims).toMatchObject({
      aud: vendor.appId,
      sub: licence.id,
      act: activation.body.activation_id,
    })
    const file = flip(offline.body.file.trim(), root, vendor.appId)
    expect(file.claims).toMatchObject({ sub: licence.id, offline: true, fingerprint: 'machine-2' })
    const listed = flip(list.signature, root, vendor.appId, signed)
    expect(listed.claims).toMatchObject({ app_id: vendor.appId, version: 1, revoked: [revoked.id] })
    for (const { accepted, bytes } of [token, file, listed]) {
      expect(bytes).toBeGreaterThan(300)
      expect(accepted).toEqual([])
    }

    // Runs the program as a reader of the guide does.
    const keys = join(folder.path, 'jwks.json')
    await writeFile(keys, JSON.stringify(keySet.body))
    const run = (input: string, ...args: string[]) =>
      python([join(folder.path, 'verify.py'), ...args], environment, input)
    const printed = run(`${activation.body.token}\n`, root, vendor.appId, keys)
    expect(JSON.parse(printed.stdout)).toEqual(token.claims)
    expect(run(offline.body.file.replaceAll('\n', '\r\n'), root, vendor.appId).status).toBe(0)
    const otherRoot = await of(other)
    for (const args of [
      [otherRoot, vendor.appId],
      [root, other.appId],
    ]) {
      expect(run(activation.body.token, ...args, keys).status).toBe(1)
      expect(run(offline.body.file, ...args).status).toBe(1)
    }
  })
})
