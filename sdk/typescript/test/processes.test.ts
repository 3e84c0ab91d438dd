import { execFile } from 'node:child_process'
import { mkdir, mkdtempDisposable, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { describe, expect, it } from 'vitest'
import type { LicenceState } from '../src/product/state.ts'
import { InstallationProcess } from './installation.ts'
import { LicensingServer } from '@licensing/sdk-suite/licensing-server'

const newFolder = () => mkdtempDisposable(join(tmpdir(), 'licence-'))

async function givenProcesses(count: number) {
  const processes = await Promise.all(Array.from({ length: count }, () => InstallationProcess.start()))
  return {
    processes,
    async [Symbol.asyncDispose]() {
      await Promise.all(processes.map((process) => process[Symbol.asyncDispose]()))
    },
  }
}

describe('8 processes that start at once', () => {
  it('have one fingerprint, whatever the volume contains', async () => {
    await using folder = await newFolder()
    await using group = await givenProcesses(8)
    const at = (name: string) => join(folder.path, name)
    for (let round = 0; round < 5; round++) await writeFile(at(`blank-${round}`), '\n')
    await writeFile(at('never-written'), '\0'.repeat(37))
    await symlink('elsewhere/id', at('link'))
    await mkdir(at('elsewhere'))
    const fresh = Array.from({ length: 10 }, (_, round) => `volume-${round}/installation-id`)
    const blank = Array.from({ length: 5 }, (_, round) => `blank-${round}`)
    const seen = new Set<string>()
    for (const name of [...fresh, ...blank, 'never-written', 'link']) {
      const order = { fingerprint: { appId: 'app_1', file: at(name) } }
      const given = new Set(await Promise.all(group.processes.map((process) => process.ask<string>(order))))
      expect([name, given.size]).toEqual([name, 1])
      for (const fingerprint of given) seen.add(fingerprint)
      await expect(group.processes[0]?.ask(order)).resolves.toBe([...given][0])
    }
    expect(seen.size).toBe(fresh.length + blank.length + 2)
    await expect(readdir(at('volume-0'))).resolves.toEqual(['installation-id'])
  })

  it('lose nothing that they write to one store', async () => {
    await using folder = await newFolder()
    await using group = await givenProcesses(8)
    const file = join(folder.path, 'licence.json')
    const add = (process: InstallationProcess, line: string) => process.ask({ add: { file, line } })
    const lines = group.processes.map((_, at) => ['a', 'b', 'c', 'd', 'e'].map((each) => `${at}${each}`))
    await Promise.all(
      group.processes.map(async (process, at) => {
        for (const line of lines[at] ?? []) await add(process, line)
      }),
    )
    const text = await readFile(file, 'utf8')
    expect(text.trim().split('\n').toSorted()).toEqual(lines.flat().toSorted())
    await expect(readdir(folder.path)).resolves.toEqual(['licence.json'])
  })
})

describe('a process that is killed while it writes', () => {
  it.each(drawn(['writeFile', 'link', 'readFile', 'rename', 'rm'] as const, 2))(
    'in %s blocks no other, and leaves the old text or the new',
    async (name) => {
      await using folder = await newFolder()
      const file = join(folder.path, 'licence.json')
      for (const before of ['', 'one\n']) {
        if (before !== '') await writeFile(file, before)
        await using victim = await InstallationProcess.start()
        await using next = await InstallationProcess.start()
        await victim.ask({ dieIn: name })
        await expect(victim.ask({ add: { file, line: 'two' } })).rejects.toThrow('the process has ended')
        await expect(victim.ended()).resolves.toBe('SIGKILL')
        await next.ask({ add: { file, line: 'three' } })
        const text = await readFile(file, 'utf8')
        expect([`${before}three\n`, `${before}two\nthree\n`]).toContain(text)
        await writeFile(file, '')
      }
    },
  )

  it.each(drawn(['writeFile', 'link', 'rm'] as const, 1))(
    'in %s does not spoil the fingerprint',
    async (name) => {
      await using folder = await newFolder()
      const order = { fingerprint: { appId: 'app_1', file: join(folder.path, 'id') } }
      await using victim = await InstallationProcess.start()
      await victim.ask({ dieIn: name })
      await expect(victim.ask(order)).rejects.toThrow('the process has ended')
      await using group = await givenProcesses(3)
      const given = await Promise.all(group.processes.map((process) => process.ask(order)))
      expect(new Set(given).size).toBe(1)
    },
  )
})

describe('two processes with one store', () => {
  // The order in which the saves of two processes begin (capital letter: the store is read) and end (small letter:
  // written).
  const orders = ['AaBb', 'ABab', 'ABba', 'BAab', 'BAba', 'BbAa']

  /** Both run `A` and `B` in this order: a capital begins a save, a small letter ends it. */
  async function interleave(
    order: string,
    begin: Record<string, () => Promise<{ end(): Promise<LicenceState> }>>,
  ): Promise<void> {
    const running = new Map<string, { end(): Promise<LicenceState> }>()
    for (const letter of order) {
      const name = letter.toUpperCase()
      if (letter === name) running.set(name, await begin[name]!())
      else await running.get(name)?.end()
    }
  }

  async function given() {
    const folder = await newFolder()
    const service = await LicensingServer.start()
    const licenceKey = service.issue()
    const file = join(folder.path, 'licence.json')
    const common = { appId: service.appId, rootKey: service.rootKey, licenceKey, fingerprint: 'machine-1' }
    const product = { ...common, host: 'app.example.com', productVersion: '1', background: false }
    // Long enough that a held save does not time out.
    const options = { ...product, baseUrl: service.baseUrl, timeoutMs: 60_000 }
    const A = await InstallationProcess.open(file, options)
    const B = await InstallationProcess.open(file, options)
    return {
      service,
      licenceKey,
      A,
      B,
      /** A later start of the product, without a network. */
      async startOffline(): Promise<LicenceState> {
        await using next = await InstallationProcess.open(file, { ...product, baseUrl: 'http://127.0.0.1:9' })
        return await next.call('ready')
      },
      async [Symbol.asyncDispose]() {
        await Promise.all([A[Symbol.asyncDispose](), B[Symbol.asyncDispose]()])
        await service[Symbol.asyncDispose]()
        await folder.remove()
      },
    }
  }

  it.each(drawn(orders, 1))(`keep a revocation that A learns of: %s (${drawing})`, async (order) => {
    await using world = await given()
    const { A, B, service } = world
    await A.call('activate')
    await A.call('check')
    await expect(B.call('activate')).resolves.toMatchObject({ status: 'licensed', revocations: 'current' })
    service.revoke(world.licenceKey)
    await interleave(order, { A: () => A.begin('check'), B: () => B.begin('ready') })
    await expect(world.startOffline()).resolves.toMatchObject({ status: 'refused', reason: 'revoked' })
    await expect(B.call('ready')).resolves.toMatchObject({ reason: 'revoked' })
  })

  it.each(drawn(orders, 1))(`keep the token that A renewed, and its keys: %s (${drawing})`, async (order) => {
    await using world = await given()
    const { A, B, service } = world
    await A.call('activate')
    await B.call('activate')
    service.rotateKey()
    service.tokenLifeSeconds = 172_800
    const before = await B.call('ready')
    await interleave(order, { A: () => A.begin('refresh'), B: () => B.begin('ready') })
    const after = await world.startOffline()
    expect(after).toMatchObject({ status: 'licensed' })
    expect(Date.parse(after.expiresAt ?? '')).toBeGreaterThan(Date.parse(before.expiresAt ?? ''))
  })

  it.each(drawn(orders, 1))(`keep free the place that A freed: %s (${drawing})`, async (order) => {
    await using world = await given()
    const { A, B, service } = world
    await A.call('activate')
    await B.call('activate')
    await interleave(order, { A: () => A.begin('deactivate'), B: () => B.begin('ready') })
    expect(service.activations).toBe(0)
    await expect(world.startOffline()).resolves.toMatchObject({ status: 'unlicensed' })
  })
})

const run = promisify(execFile)
const canMount = await run('unshare', ['--mount', '--map-root-user', 'true']).then(
  () => true,
  () => false,
)

describe.skipIf(!canMount)('a single file that is mounted, so that it cannot be renamed over', () => {
  /** Runs a program in which `empty` is mounted over `file`. */
  async function mounted(folder: string, program: string): Promise<unknown> {
    await writeFile(join(folder, 'program.ts'), program)
    await writeFile(join(folder, 'empty'), '')
    await writeFile(join(folder, 'file'), 'the mount hides this')
    const script = 'mount --bind "$1/empty" "$1/file" && exec "$2" "$1/program.ts" "$1/file"'
    const parameters = ['--mount', '--map-root-user', 'sh', '-c', script, 'sh', folder, process.execPath]
    const { stdout } = await run('unshare', parameters)
    return JSON.parse(stdout)
  }

  const node = JSON.stringify(join(import.meta.dirname, '../src/node.ts'))

  it('is written in place by a store', async () => {
    await using folder = await newFolder()
    const program = `import { fileStore } from ${node}
      const store = fileStore(process.argv[2])
      await store.write('a longer text')
      await store.update(async (text) => text.slice(2))
      console.log(JSON.stringify(await store.read()))`
    await expect(mounted(folder.path, program)).resolves.toBe('longer text')
    await expect(readFile(join(folder.path, 'empty'), 'utf8')).resolves.toBe('longer text')
    await expect(readdir(folder.path)).resolves.toEqual(['empty', 'file', 'program.ts'])
  })

  it('keeps the id of a fingerprint', async () => {
    await using folder = await newFolder()
    const program = `import { machineFingerprint } from ${node}
      const given = { appId: 'app_1', file: process.argv[2] }
      const all = Array.from({ length: 10 }, () => machineFingerprint(given))
      console.log(JSON.stringify([...await Promise.all(all), await machineFingerprint(given)]))`
    const given = (await mounted(folder.path, program)) as string[]
    expect([given.length, new Set(given).size]).toEqual([11, 1])
  })
})
