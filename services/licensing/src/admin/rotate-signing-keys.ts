#!/usr/bin/env node
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { parseEncryptionKeys } from '@licensing/database/encryption'
import { isId } from '@licensing/database/ids'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ConfigError, readConfig } from '@licensing/process/config'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { licensingConfig } from '../config.ts'
import { reEncryptAllPrivateKeys } from '../signing-keys/re-encrypt.ts'
import { rotateSigningKeys } from '../signing-keys/rotate-signing-keys.ts'

const environment = z.object({
  DATABASE_URL: licensingConfig.shape.DATABASE_URL,
  ENCRYPTION_KEY: licensingConfig.shape.ENCRYPTION_KEY,
})

// Longer than caches keep public keys (a minute), so that every verifier has the next key before it signs.
const usualLeadSeconds = 120

const help = `rotate-signing-keys: rotates the keys that sign tokens and revocation lists. Run it with the environment of the licensing service.

  --app APP_ID       rotates the signing key of one application
  --all              rotates the signing keys of all applications
      --lead-seconds N   publishes the new key N seconds before it signs (default ${usualLeadSeconds}); tokens of the old key stay valid
      --leaked           uses the new key immediately and withdraws the old ones: their tokens become invalid. Installed products
                         that have the licence key activate again automatically; the others are refused
  --re-encrypt       encrypts all private keys again with the first key of ENCRYPTION_KEY; then remove the other keys

Environment: DATABASE_URL, and ENCRYPTION_KEY as for the service (NEW,OLD during a rotation).
Prints one line of JSON.
`

/** Wrong arguments: exit code 2. */
class UsageError extends Error {}

type Job = (sql: Database) => Promise<Record<string, unknown>>

process.exitCode = await main(process.argv.slice(2))

async function main(args: string[]): Promise<number> {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help)
    return 0
  }
  try {
    const config = readConfig(environment)
    const job = jobOf(args, config.ENCRYPTION_KEY)
    const sql = connect(config.DATABASE_URL, { name: 'rotate-signing-keys', max: 1 })
    try {
      process.stdout.write(`${JSON.stringify(await job(sql))}\n`)
    } finally {
      await sql.end({ timeout: 5 })
    }
    return 0
  } catch (error) {
    process.stderr.write(`rotate-signing-keys: ${explain(error)}\n`)
    if (error instanceof UsageError) process.stderr.write(`\n${help}`)
    return error instanceof UsageError || error instanceof ConfigError ? 2 : 1
  }
}

function jobOf(args: string[], encryptionKey: string): Job {
  const { app, all, leaked = false, 'lead-seconds': lead, 're-encrypt': reEncrypt } = parsed(args)
  const encryption = parseEncryptionKeys(encryptionKey)
  if ([app !== undefined, all, reEncrypt].filter(Boolean).length !== 1) {
    throw new UsageError('give one of --app, --all and --re-encrypt')
  }
  if (reEncrypt) return async (sql) => ({ re_encrypted: await reEncryptAllPrivateKeys(sql, encryption) })
  if (app !== undefined && !isId('app', app)) throw new UsageError(`--app: ${app} is not an application id`)
  if (lead !== undefined && !/^[0-9]{1,6}$/.test(lead)) {
    throw new UsageError('--lead-seconds must be a whole number of at most 6 digits')
  }
  const leadSeconds = leaked ? 0 : Number(lead ?? usualLeadSeconds)
  return async (sql) => {
    const rotated = await rotateSigningKeys(sql, encryption, { applicationId: app, leadSeconds, leaked })
    if (app !== undefined && rotated.length === 0) {
      throw new Error(`application ${app} has no signing key yet: it gets one with its first token`)
    }
    return { rotated: rotated.length, signs_in_seconds: leadSeconds }
  }
}

function parsed(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        app: { type: 'string' },
        all: { type: 'boolean' },
        'lead-seconds': { type: 'string' },
        leaked: { type: 'boolean' },
        're-encrypt': { type: 'boolean' },
      },
    }).values
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error })
  }
}

function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return isDatabaseUnavailable(error) ? `the database cannot be reached: ${message}` : message
}
