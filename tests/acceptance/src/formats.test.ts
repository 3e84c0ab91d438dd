import { isFull } from '@licensing/test-support/drawn'
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { blocksOf } from './documents.ts'
import { keySet, revocations } from './published.ts'
import { givenFolder, givenStack, givenVendor, installed } from './vendor.ts'

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

// Verifies the document and documents that differ from it in one bit. `accepted` lists the positions of the changes that were not refused.
const flipping = `
import json, random, sys
from verify import verify

text, *rest = json.load(sys.stdin)
claims = verify(text, *rest)
accepted = []
for at in range(len(text)):
    for bit in ${isFull ? 'range(7)' : '[random.randrange(7)]'}:
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

const { path: folder } = await givenFolder()
const environment = isThere ? findPackage(join(folder, 'packages')) : undefined
const stack = await givenStack()

test.skipIf(!isThere)(
  'the program of the guide to formats verifies a token, a licence file and a revocation list of the service, and refuses each with any signed byte changed',
  async (context) => {
    if (environment === undefined) {
      const why = 'the package cryptography is not installed and PyPI cannot be reached'
      process.stdout.write(`skipped: ${why}\n`)
      return context.skip(why)
    }
    const [program] = blocksOf(guide).filter(({ file }) => file === 'verify.py')
    await writeFile(join(folder, 'verify.py'), program!.code)
    await writeFile(join(folder, 'flip.py'), flipping)
    const vendor = await givenVendor(stack)
    const { appId, rootKey } = vendor
    const plan = await vendor.plan()
    const licence = await vendor.issue(plan.id)
    const revoked = await vendor.issue(plan.id)
    await vendor.verb('revoke', revoked.id)
    const { body: activation } = await vendor.activate(licence)
    const { body: offline } = await vendor.api.post<{ file: string }>(`${vendor.app}/offline-activations`, {
      body: { licence_key: licence.key, ...installed, fingerprint: 'machine-2', days: 30 },
    })
    const { body: list } = await revocations(vendor)
    const published = await keySet(vendor)
    const flip = (...input: unknown[]) => {
      const done = python([join(folder, 'flip.py')], environment, JSON.stringify(input))
      expect(done.stderr).toBe('')
      const flipped = JSON.parse(done.stdout) as Flipped
      expect(flipped.bytes).toBeGreaterThan(300)
      // The lines around a file's tokens, and its line breaks, are not signed: a mail program may change them.
      const [text] = input as [string]
      const signed = text.startsWith('-')
        ? /(?<=LICENCE.*\n)[^]*(?=\n.*END)/.exec(text)!
        : /^[^]*$/.exec(text)!
      const isSigned = (at: number) =>
        at >= signed.index && at < signed.index + signed[0].length && text[at] !== '\n'
      expect(flipped.accepted.filter(([at]) => isSigned(at))).toEqual([])
      return flipped.claims
    }
    const claims = flip(activation.token, rootKey, appId, published.signed)
    expect(claims).toMatchObject({ aud: appId, sub: licence.id, act: activation.activation_id })
    const ofFile = { sub: licence.id, offline: true, fingerprint: 'machine-2' }
    expect(flip(offline.file.trim(), rootKey, appId)).toMatchObject(ofFile)
    const listed = { app_id: appId, version: 1, revoked: [revoked.id] }
    expect(flip(list.signature, rootKey, appId, published.signed)).toMatchObject(listed)

    // Runs the program as a reader of the guide does.
    const keys = join(folder, 'jwks.json')
    await writeFile(keys, JSON.stringify(published))
    const run = (input: string, ...args: string[]) =>
      python([join(folder, 'verify.py'), ...args], environment, input)
    const printed = run(`${activation.token}\n`, rootKey, appId, keys)
    expect(JSON.parse(printed.stdout)).toEqual(claims)
    expect(run(offline.file.replaceAll('\n', '\r\n'), rootKey, appId).status).toBe(0)
    const other = await givenVendor(stack)
    for (const args of [
      [other.rootKey, appId],
      [rootKey, other.appId],
    ]) {
      expect(run(activation.token, ...args, keys).status).toBe(1)
      expect(run(offline.file, ...args).status).toBe(1)
    }
  },
)
