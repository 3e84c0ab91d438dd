import { randomBytes, randomInt } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { DATABASE_SERVICES, type DatabaseService } from './services.ts'

const BASE_62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Secrets that a stack generates once and uses at every start. */
interface StackSecrets {
  /** Part of the names of its databases and roles. */
  suffix: string
  /** `ENCRYPTION_KEY` of licensing. */
  encryptionKey: string
  /** `ENCRYPTION_KEY` of the notifier. In a folder of a release in which both shared a key, it is `NEW,OLD`. */
  notifierEncryptionKey: string
  bootstrapKey: string
  databasePasswords: Record<DatabaseService, string>
  stripeWebhookSecret: string
  portalSessionKey: string
}

/**
 * Reads the secrets in `dataDir`, and generates them at the first call. Only the owner of the file can read them.
 *
 * @param bootstrapKey the demo account's key, if the operator sets it. It is stored, so that a later start without it has
 *   the same key
 */
export async function loadSecrets(dataDir: string, bootstrapKey: string | undefined): Promise<StackSecrets> {
  const file = join(dataDir, 'secrets.json')
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  const found = text === undefined ? {} : (JSON.parse(text) as Partial<StackSecrets>)
  // A folder of an earlier release may lack some secrets.
  const former = found.encryptionKey
  const secrets = {
    ...newSecrets(),
    ...(former !== undefined && { notifierEncryptionKey: `${newEncryptionKey()},${former}` }),
    ...found,
    ...(bootstrapKey !== undefined && { bootstrapKey }),
  }
  const written = JSON.stringify(secrets, undefined, 2)
  if (written !== text) await writeSecretFile(file, written)
  return secrets
}

/** Writes a file that only its owner can read. The write is atomic, and the file is on disk when this returns. */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const fresh = await open(`${path}.new`, 'w', 0o600)
  try {
    await fresh.chmod(0o600)
    await fresh.writeFile(text)
    await fresh.sync()
  } finally {
    await fresh.close()
  }
  await rename(`${path}.new`, path)
}

/** An API key: `lsk_`, six public characters, 43 secret characters, and a checksum by which scanners recognize a key. */
export function newApiKey(): string {
  const body = `lsk_${base62(6)}_${base62(43)}`
  let sum = crc32(body)
  let checksum = ''
  for (let digit = 0; digit < 6; digit++) {
    checksum = (BASE_62[sum % 62] ?? '') + checksum
    sum = Math.floor(sum / 62)
  }
  return body + checksum
}

/** 32 bytes, base64url. */
export function newEncryptionKey(): string {
  return randomBytes(32).toString('base64url')
}

/** 24 bytes, base64url. */
export function newPassword(): string {
  return randomBytes(24).toString('base64url')
}

function newSecrets(): StackSecrets {
  const passwords = DATABASE_SERVICES.map((service) => [service, newPassword()] as const)
  return {
    suffix: randomBytes(4).toString('hex'),
    encryptionKey: newEncryptionKey(),
    notifierEncryptionKey: newEncryptionKey(),
    bootstrapKey: newApiKey(),
    databasePasswords: Object.fromEntries(passwords) as Record<DatabaseService, string>,
    stripeWebhookSecret: `whsec_${newPassword()}`,
    portalSessionKey: newEncryptionKey(),
  }
}

function base62(length: number): string {
  return Array.from({ length }, () => BASE_62[randomInt(62)]).join('')
}
