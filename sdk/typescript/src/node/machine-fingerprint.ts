import { execFile } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { appendFile, readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { promisify } from 'node:util'
import { createFile, readText, target } from './file-store.ts'

export interface MachineFingerprintOptions {
  /** The application's id: the same machine has another fingerprint in another application. */
  readonly appId: string
  /**
   * File of a random id, which is used instead of the machine's own. For containers, which have no id or
   * share the one of their image: put the file on a volume. Processes that start at the same time use one id.
   */
  readonly file?: string | undefined
}

/**
 * A fingerprint of this machine: 64 hexadecimal characters, the same at every start. It is a hash, so the machine's own
 * id is not sent. An id that many machines share (`uninitialized`, zeros, a vendor's placeholder) is skipped. If the
 * machine has no id, its host name is used.
 *
 * @throws the file system's error if `file` is given and can be neither read nor written
 * @example const fingerprint = await machineFingerprint({ appId: 'app_01k…' })
 * @example const fingerprint = await machineFingerprint({ appId, file: '/data/installation-id' })
 */
export async function machineFingerprint({ appId, file }: MachineFingerprintOptions): Promise<string> {
  const id = file === undefined ? ((await machineId(process.platform)) ?? hostname()) : await keptId(file)
  return createHash('sha256').update(`${appId}\n${id}`).digest('hex')
}

/** The id in a file; a new one if there is none yet. */
async function keptId(file: string): Promise<string> {
  const path = await target(file)
  const kept = await firstLine(path)
  if (kept !== null) return kept
  const line = `${randomUUID()}\n`
  // Created exclusively, so that one of several processes decides. If that is not possible, because the file exists and
  // is empty or because the file system has no links, the first line that is appended decides.
  await createFile(path, line).catch(() => undefined)
  if ((await firstLine(path)) === null) await appendFile(path, line, { mode: 0o600, flush: true })
  const id = await firstLine(path)
  if (id === null) throw new Error(`${file} does not keep what is written to it`)
  return id
}

/**
 * The first line that is not blank. After a crash, text that was not written to the disk yet reads as NUL characters.
 */
async function firstLine(path: string): Promise<string | null> {
  const lines = (await readText(path))?.replaceAll('\0', '').split(/[\r\n]+/) ?? []
  return lines.map((line) => line.trim()).find((line) => line !== '') ?? null
}

/** The sources of a machine's id. */
interface MachineIdSources {
  /** The text of a file; empty if it cannot be read. */
  file(path: string): Promise<string>
  /** The output of a command; empty if it fails. */
  output(command: string, parameters: readonly string[]): Promise<string>
}

/** The id that the operating system gives the machine; null if it has none of its own. */
export async function machineId(
  platform: NodeJS.Platform,
  { file, output }: MachineIdSources = { file: content, output: printed },
): Promise<string | null> {
  switch (platform) {
    case 'darwin': {
      const text = await output('ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice'])
      return firstGood([/"IOPlatformUUID" = "(.+?)"/.exec(text)?.[1]])
    }
    case 'win32': {
      const key = 'HKLM\\SOFTWARE\\Microsoft\\Cryptography'
      // A program of 32 bits is shown another registry, which has no such value.
      const text = await output('reg', ['query', key, '/v', 'MachineGuid', '/reg:64'])
      return firstGood([/MachineGuid\s+REG_SZ\s+(.+)/.exec(text)?.[1]])
    }
    default:
      return firstGood([await file('/etc/machine-id'), await file('/var/lib/dbus/machine-id')])
  }
}

function firstGood(ids: readonly (string | undefined)[]): string | null {
  return ids.map((id) => id?.trim() ?? '').find((id) => !isPlaceholderId(id)) ?? null
}

async function printed(command: string, parameters: readonly string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(command, parameters, { timeout: 2000, windowsHide: true })
    return stdout
  } catch {
    return ''
  }
}

async function content(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    return ''
  }
}

/**
 * Placeholders that many machines have instead of an id: systemd's before the first boot, and the defaults of firmware
 * whose maker wrote no id. Letters and digits only, in lower case.
 */
const PLACEHOLDERS = `
  uninitialized none null unknown na notapplicable notavailable notspecified notsettable invalid default defaultstring
  systemserialnumber serialnumber tobefilledbyoem oem oemstring
  03000200040005000006000700080009 00020003000400050006000700080009
  123456781234567890abcddeefaabbcc 1234567812345678123456789abcdef0 12345678901234567890123456789012
  0123456789abcdef0123456789abcdef 4c4c454400002010802080c04f202020 fefefefefefefefefefefefefefefefe
`.split(/\s+/)

/** Whether a text is blank, a placeholder, or one character repeated (zeros): no id of one machine. */
function isPlaceholderId(id: string): boolean {
  const plain = id.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  return /^(.?)\1*$/.test(plain) || PLACEHOLDERS.includes(plain)
}
