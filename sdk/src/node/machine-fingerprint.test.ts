import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { machineFingerprint } from './machine-fingerprint.ts'

const newFolder = () => mkdtempDisposable(join(tmpdir(), 'licence-'))

describe('machineFingerprint', () => {
  it('is the same each time, and another for another application', async () => {
    const one = await machineFingerprint({ appId: 'app_1' })
    expect(one).toMatch(/^[0-9a-f]{64}$/)
    await expect(machineFingerprint({ appId: 'app_1' })).resolves.toBe(one)
    await expect(machineFingerprint({ appId: 'app_2' })).resolves.not.toBe(one)
  })

  it('comes from the id that is kept in a file, where one is given', async () => {
    await using one = await newFolder()
    await using other = await newFolder()
    const at = ({ path }: { path: string }) =>
      machineFingerprint({ appId: 'app_1', file: join(path, 'data', 'id') })
    const first = await at(one)
    await expect(at(one)).resolves.toBe(first)
    await expect(at(other)).resolves.not.toBe(first)
  })

  it('does not change with white space around the id', async () => {
    await using folder = await newFolder()
    const file = join(folder.path, 'id')
    await writeFile(file, 'machine-7')
    const bare = await machineFingerprint({ appId: 'app_1', file })
    await writeFile(file, '  machine-7\r\n')
    await expect(machineFingerprint({ appId: 'app_1', file })).resolves.toBe(bare)
  })

  it('rejects where the file cannot be kept, rather than give another each time', async () => {
    await using folder = await newFolder()
    await writeFile(join(folder.path, 'plain'), '')
    const file = join(folder.path, 'plain', 'id')
    await expect(machineFingerprint({ appId: 'app_1', file })).rejects.toThrow('ENOTDIR')
  })
})
