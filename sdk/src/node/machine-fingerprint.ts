import { execFile } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { promisify } from 'node:util'
import { fileStore } from './file-store.ts'

export interface MachineFingerprintOptions {
  /** The application's id: the same machine has another fingerprint in another application. */
  readonly appId: string
  /**
   * Where to keep an id made at random, in place of the machine's own. For containers, which have no id of their own
   * or share their image's: put it on a volume.
   */
  readonly file?: string | undefined
}

/**
 * A fingerprint of this machine: 64 hexadecimal characters, the same at every start. It is a hash, so that the
 * machine's own id does not leave it. Without an id of the machine the host name stands in for it.
 *
 * @throws what the file system throws where `file` is given and can be neither read nor written
 * @example const fingerprint = await machineFingerprint({ appId: 'app_01k…' })
 * @example const fingerprint = await machineFingerprint({ appId, file: '/data/installation-id' })
 */
export async function machineFingerprint({ appId, file }: MachineFingerprintOptions): Promise<string> {
  const id = file === undefined ? ((await machineId()) ?? hostname()) : await keptId(file)
  return createHash('sha256').update(`${appId}\n${id}`).digest('hex')
}

async function keptId(file: string): Promise<string> {
  const store = fileStore(file)
  const kept = (await store.read())?.trim()
  if (kept) return kept
  const id = randomUUID()
  await store.write(`${id}\n`)
  return id
}

async function machineId(): Promise<string | null> {
  switch (process.platform) {
    case 'darwin':
      return found(
        await output('ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice']),
        /"IOPlatformUUID" = "(.+?)"/,
      )
    case 'win32': {
      const key = 'HKLM\\SOFTWARE\\Microsoft\\Cryptography'
      return found(await output('reg', ['query', key, '/v', 'MachineGuid']), /MachineGuid\s+REG_SZ\s+(\S+)/)
    }
    default:
      return (await content('/etc/machine-id')) ?? (await content('/var/lib/dbus/machine-id'))
  }
}

async function output(command: string, parameters: readonly string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(command, parameters, { timeout: 2000, windowsHide: true })
    return stdout
  } catch {
    return ''
  }
}

async function content(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).trim() || null
  } catch {
    return null
  }
}

function found(text: string, pattern: RegExp): string | null {
  return pattern.exec(text)?.[1] ?? null
}
