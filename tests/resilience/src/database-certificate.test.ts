import { makeCertificate } from '@licensing/local-servers/certificates'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { eventually } from '@licensing/test-support/poll'
import { chownSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, expect, test } from 'vitest'
import { connect } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'

const trusted = getCACertificates('default')
afterAll(() => setDefaultCACertificates(trusted))

test('while the certificate of PostgreSQL has ended, work waits as in an outage; with another one it goes on by itself', async () => {
  await using server = await startOwnPostgres()
  const admin = connect(server.url(), { name: 'admin', max: 1 })
  const [row] = await admin<{ folder: string }[]>`select current_setting('data_directory') as folder`
  const { uid, gid } = statSync(row!.folder)
  const present = async (made: Awaited<ReturnType<typeof makeCertificate>>) => {
    for (const [name, text] of [
      ['server.crt', made.certificate],
      ['server.key', made.key],
    ] as const) {
      const path = join(row!.folder, name)
      writeFileSync(path, text, { mode: 0o600 })
      chownSync(path, uid, gid)
    }
    await admin.unsafe(`alter system set ssl = on`)
    await admin`select pg_reload_conf()`
    await admin`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'client'`
  }
  const [first, ended, renewed] = await Promise.all([
    makeCertificate(['localhost']),
    makeCertificate(['localhost'], new Date(Date.now() - 60_000)),
    makeCertificate(['localhost']),
  ])
  setDefaultCACertificates([...trusted, ...[first, ended, renewed].map(({ authority }) => authority)])
  await present(first)
  const sql = connect(`${server.url()}?sslmode=verify-full`, { name: 'client', max: 2 })
  const isEncrypted = async () => {
    const [session] = await sql<{ ssl: boolean }[]>`
      select ssl from pg_stat_ssl where pid = pg_backend_pid()`
    return session!.ssl
  }
  await eventually(isEncrypted)
  await present(ended)
  const failures: unknown[] = []
  await eventually(async () => {
    await isEncrypted().catch((error: unknown) => failures.push(error))
    expect(failures.at(-1)).toMatchObject({ code: 'CERT_HAS_EXPIRED' })
  })
  expect(failures.filter((error) => !isDatabaseOutage(error))).toEqual([])
  await present(renewed)
  await eventually(isEncrypted)
  await Promise.all([sql.end(), admin.end()])
})
