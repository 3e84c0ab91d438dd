import { chmod, mkdtempDisposable, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { machineFingerprint, machineId } from './machine-fingerprint.ts'

const newFolder = () => mkdtempDisposable(join(tmpdir(), 'licence-'))

describe('machineFingerprint', () => {
  it('is the same each time, and different for another application', async () => {
    const one = await machineFingerprint({ appId: 'app_1' })
    expect(one).toMatch(/^[0-9a-f]{64}$/)
    await expect(machineFingerprint({ appId: 'app_1' })).resolves.toBe(one)
    await expect(machineFingerprint({ appId: 'app_2' })).resolves.not.toBe(one)
  })

  it('is made from the id in a file, if a file is given', async () => {
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

  it('rejects if the file cannot be stored, instead of returning a different one each time', async () => {
    await using folder = await newFolder()
    await writeFile(join(folder.path, 'plain'), '')
    const file = join(folder.path, 'plain', 'id')
    await expect(machineFingerprint({ appId: 'app_1', file })).rejects.toThrow('ENOTDIR')
  })

  it('is kept in the file that a symbolic link points to', async () => {
    await using folder = await newFolder()
    const [file, link] = [join(folder.path, 'id'), join(folder.path, 'link')]
    await symlink('id', link)
    const fingerprint = await machineFingerprint({ appId: 'app_1', file: link })
    await expect(readFile(file, 'utf8')).resolves.toMatch(/^[0-9a-f-]{36}\n$/)
    await expect(machineFingerprint({ appId: 'app_1', file })).resolves.toBe(fingerprint)
  })

  it('is read from a file that cannot be written', async () => {
    await using folder = await newFolder()
    const file = join(folder.path, 'id')
    await writeFile(file, 'machine-7', { mode: 0o444 })
    await chmod(folder.path, 0o555)
    await expect(machineFingerprint({ appId: 'app_1', file })).resolves.toMatch(/^[0-9a-f]{64}$/)
    await chmod(folder.path, 0o755)
  })
})

describe('the id of a machine', () => {
  const GOOD = '8f3c1c0e6d5b4a2f9e8d7c6b5a493827'
  const reading = (files: Record<string, string>, printed = '') => ({
    file: (path: string) => Promise.resolve(files[path] ?? ''),
    output: () => Promise.resolve(printed),
  })

  it.each([
    'uninitialized\n',
    '',
    '\n',
    '00000000000000000000000000000000\n',
    'ffffffffffffffffffffffffffffffff',
    'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF',
    '03000200-0400-0500-0006-000700080009',
    '12345678-1234-5678-90AB-CDDEEFAABBCC',
    'None',
    'Not Specified',
    'To be filled by O.E.M.',
    'Default string',
  ])('is not %j: the next source is used', async (placeholder) => {
    const both = { '/etc/machine-id': placeholder, '/var/lib/dbus/machine-id': `${GOOD}\n` }
    await expect(machineId('linux', reading(both))).resolves.toBe(GOOD)
    const only = { '/etc/machine-id': placeholder }
    await expect(machineId('linux', reading(only))).resolves.toBeNull()
    const mac = `    "IOPlatformUUID" = "${placeholder.trim()}"`
    await expect(machineId('darwin', reading({}, mac))).resolves.toBeNull()
    const windows = `    MachineGuid    REG_SZ    ${placeholder.trim()}\r\n`
    await expect(machineId('win32', reading({}, windows))).resolves.toBeNull()
  })

  it('is the id that the operating system reports', async () => {
    await expect(machineId('linux', reading({ '/etc/machine-id': `${GOOD}\n` }))).resolves.toBe(GOOD)
    const guid = 'B7A1D5E2-3C4F-4E5A-9B8C-1D2E3F4A5B6C'
    await expect(machineId('darwin', reading({}, `"IOPlatformUUID" = "${guid}"`))).resolves.toBe(guid)
    const row = `    MachineGuid    REG_SZ    ${guid}\r\n\r\n`
    await expect(machineId('win32', reading({}, row))).resolves.toBe(guid)
  })

  it('is read from the registry of 64 bits, which has it, also by a program of 32 bits', async () => {
    const guid = 'B7A1D5E2-3C4F-4E5A-9B8C-1D2E3F4A5B6C'
    const output = (command: string, parameters: readonly string[]) =>
      Promise.resolve(
        command === 'reg' && parameters.includes('/reg:64') ? `    MachineGuid    REG_SZ    ${guid}\r\n` : '',
      )
    await expect(machineId('win32', { ...reading({}), output })).resolves.toBe(guid)
  })
})
