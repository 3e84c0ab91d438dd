import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { databaseUrl, readConfig } from '@licensing/process/config'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

// `node /app/dist/src/migrate.mjs`: applies the migrations of this image to DATABASE_URL and exits. A service does the same
// when it starts; the command can do it before the first new replica.

/** Defined by the bundler: `catalog`, `licensing`, … */
declare const COMPONENT: string

const folder = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const shared = ['outbox', 'consumers', 'idempotency', 'quotas'].map((name) => ({
  name,
  path: folder(`migrations/${name}`),
}))
const own = { name: COMPONENT, path: folder('migrations') }

const { DATABASE_URL } = readConfig(
  z.object({ DATABASE_URL: databaseUrl.describe('postgres://… of the service’s own database') }),
)
const sql = connect(DATABASE_URL, { name: `${COMPONENT} migrate`, max: 1 })
try {
  const applied = await migrate(sql, [...shared.filter(({ path }) => existsSync(path)), own])
  process.stdout.write(`${COMPONENT}: ${applied.length === 0 ? 'up to date' : applied.join(', ')}\n`)
} finally {
  await sql.end({ timeout: 5 })
}
