import { drawing, drawn } from '@licensing/test-support/drawn'
import { execFile } from 'node:child_process'
import { mkdtempDisposable, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { LicensingServer } from '@licensing/sdk-suite/licensing-server'

const run = promisify(execFile)
const sdk = join(import.meta.dirname, '..')
const workspace = join(sdk, '../..')
const tsc = join(workspace, 'node_modules', '.bin', 'tsc')

/** A project outside this repository, with the package installed as it would be published. */
let project: string

beforeAll(async () => {
  const folder = await mkdtempDisposable(join(tmpdir(), 'licensing-sdk-'))
  project = folder.path
  const pnpm = join(workspace, 'tools', 'pnpm', 'pnpm.mjs')
  await run(process.execPath, [pnpm, 'pack', '--pack-destination', project], { cwd: sdk })
  const [tarball = ''] = await readdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  // The dependencies are taken from this repository, so that nothing is downloaded.
  const names = ['@noble/ed25519', 'react']
  const dependencies = await Promise.all(names.map((name) => realpath(join(sdk, 'node_modules', name))))
  const flags = ['--offline', '--no-audit', '--no-fund', '--install-links']
  await run('npm', ['install', ...flags, `./${tarball}`, ...dependencies], { cwd: project })
  return () => folder.remove()
})

describe('the published package', () => {
  it('depends only on a library for runtimes without Ed25519', async () => {
    const manifest = JSON.parse(await readFile(join(installed(), 'package.json'), 'utf8'))
    expect(Object.keys(manifest.dependencies)).toEqual(['@noble/ed25519'])
    expect(manifest).not.toHaveProperty('private')
    expect(manifest.peerDependenciesMeta).toEqual({ react: { optional: true } })
    expect(manifest.publishConfig).toEqual({ access: 'public', provenance: true })
  })

  it('contains the built files, and no sources or tests', async () => {
    const files = await readdir(installed(), { recursive: true })
    expect(files).toEqual(
      expect.arrayContaining([
        'README.md',
        'LICENSE',
        'dist/index.js',
        'dist/index.d.ts',
        'vectors/README.md',
      ]),
    )
    expect(files.filter((file) => file.startsWith('src') || file.includes('.test.'))).toEqual([])
  })

  it('imports nothing of Node outside of its entry for Node', async () => {
    const dist = join(installed(), 'dist')
    const files = await readdir(dist, { recursive: true })
    const scripts = files.filter((file) => /\.c?js$/.test(file) && !file.startsWith('node'))
    const texts = await Promise.all(scripts.map((file) => readFile(join(dist, file), 'utf8')))
    expect(scripts.length).toBeGreaterThan(10)
    expect(
      texts.filter((text) => /(?:from |import\(|require\()['"](?:node:|\.\.?\/node)/.test(text)),
    ).toEqual([])
  })

  const forms: [string, string, string[]][] = [
    ['an ES module', 'product.mts', ['--module', 'nodenext']],
    ['CommonJS', 'product.cts', ['--module', 'node16']],
  ]
  it.each(drawn(forms, 1))(
    `runs as %s, with types, again without a network, and lets the process end (${drawing})`,
    async (_form, file, flags) => {
      await using service = await LicensingServer.start()
      await write(
        file,
        `import { LicenceClient } from '@licensing/sdk'
       import { createLicensingBackend } from '@licensing/sdk/backend'
       import { fileStore, machineFingerprint } from '@licensing/sdk/node'
       import { useLicence } from '@licensing/sdk/react'
       import { verifyWebhook } from '@licensing/sdk/webhooks'
       const [baseUrl = '', appId = '', licenceKey, rootKey = ''] = process.argv.slice(2)
       async function start(): Promise<void> {
         const fingerprint = await machineFingerprint({ appId, file: './id' })
         const store = fileStore('./' + licenceKey)
         const licence = new LicenceClient({
           baseUrl, appId, rootKey, licenceKey, fingerprint, store, host: 'localhost', productVersion: '1',
         })
         const { status } = await licence.activate()
         const values = [licence.hasFeature('export_pdf'), licence.limit('max_projects')]
         const refused: unknown = await verifyWebhook('{}', 't=1,v1=' + '0'.repeat(64), 'whsec_x').catch(({ reason }) => reason)
         const backend = createLicensingBackend({ baseUrl, apiKey: 'lsk_x' })
         console.log([status, values, refused, typeof backend.get, typeof useLicence].join())
       }
       void start()`,
      )
      const ofNode = ['--types', 'node', '--typeRoots', join(workspace, 'node_modules/@types')]
      await expect(compile(...flags, ...ofNode, file)).resolves.toBe('')
      // A version of Node that cannot load an ES module with require() behaves like this.
      const script = ['--no-experimental-require-module', file.replace('ts', 'js')]
      const { baseUrl, appId, rootKey } = service
      const parameters = [baseUrl, appId, service.issue(), rootKey]
      const start = () => run(process.execPath, [...script, ...parameters], { cwd: project })
      const licensed = { stdout: 'licensed,true,25,signature_mismatch,function,function\n' }
      await expect(start()).resolves.toMatchObject(licensed)
      await service.close()
      await expect(start()).resolves.toMatchObject(licensed)
    },
  )

  it('names its React module a client module, also for CommonJS', async () => {
    for (const file of ['react.js', 'react.cjs']) {
      expect(await readFile(join(installed(), 'dist', file), 'utf8')).toMatch(
        /^(?:"use strict";\n)?['"]use client['"]/,
      )
    }
  })

  const resolutions: [string, string[]][] = [
    ['nodenext', ['--module', 'nodenext']],
    ['a bundler', ['--module', 'esnext', '--moduleResolution', 'bundler']],
  ]
  it.each(drawn(resolutions, 1))(
    `type checks from TypeScript that resolves as %s (${drawing})`,
    async (_name, flags) => {
      const good = await write(
        'good.ts',
        `import { LicenceClient, memoryStore, type LicenceState } from '@licensing/sdk'
       import { verifyWebhook } from '@licensing/sdk/webhooks'
       import { createLicensingBackend } from '@licensing/sdk/backend'
       import { useLicence } from '@licensing/sdk/react'
       const use: (licence: LicenceClient) => LicenceState = useLicence
       const backend = createLicensingBackend({ baseUrl: 'https://x', apiKey: 'lsk_x' })
       const plan = backend.post('/v1/apps/{app_id}/plans/{plan_id}/archive', { path: { app_id: 'a', plan_id: 'p' } })
       plan.then(({ suspended_licences }) => suspended_licences.toFixed(0), () => null)
       const licence = new LicenceClient({
         baseUrl: 'https://x', appId: 'app_1', rootKey: 'unpinned', fingerprint: 'f', host: 'h', productVersion: '1', store: memoryStore(),
       })
       const state: LicenceState = await licence.activate()
       const granted: boolean = licence.hasFeature('a') && state.usable
       const limit: number = licence.limit('b')
       const event = await verifyWebhook(new Uint8Array(), null, ['s'])
       if (event.type === 'refund.processed') event.data.object.amount.toFixed(granted ? limit : 0)
       export {}`,
      )
      await expect(check(good, flags)).resolves.toBe('')
      const bad = await write(
        'bad.ts',
        `import { LicenceClient } from '@licensing/sdk'
       new LicenceClient({ baseUrl: 'https://x' })`,
      )
      await expect(check(bad, flags)).resolves.toContain('appId')
    },
  )
})

function installed(): string {
  return join(project, 'node_modules', '@licensing', 'sdk')
}

async function write(name: string, text: string): Promise<string> {
  const path = join(project, name)
  await writeFile(path, text)
  return path
}

/** The compiler's errors in a file, with only the types of the Web, and with a check of the libraries' types. */
function check(file: string, flags: readonly string[]): Promise<string> {
  return compile('--noEmit', '--types', '', ...flags, file)
}

function compile(...args: string[]): Promise<string> {
  const all = ['--ignoreConfig', '--strict', '--target', 'es2022', '--lib', 'es2022,dom', ...args]
  return run(tsc, all, { cwd: project }).then(
    () => '',
    ({ stdout }: { stdout: string }) => stdout,
  )
}
