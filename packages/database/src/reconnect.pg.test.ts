import { startOwnPostgres } from '@licensing/test-support/postgres'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'
import { transaction } from './transaction.ts'

// Without our patch, postgres 3.4.9 fails this test: a stale write timer hangs the pool, or a null socket ends the process.
test('a pool under load recovers by itself when PostgreSQL is killed and restarted, and loses no commit', async () => {
  await using server = await startOwnPostgres()
  const sql = connect(server.url(), { name: 'reconnect', max: 8 })
  await sql`create table written (id int primary key, part int not null)`
  const committed: number[] = []
  const problems: unknown[] = []
  const load = { running: true }
  let next = 0
  const writer = async () => {
    while (load.running) {
      next += 1
      const id = next
      try {
        await transaction(sql, async (tx) => {
          await tx`insert into written (id, part) values (${id}, 1)`
          await tx`update written set part = 2 where id = ${id}`
        })
        committed.push(id)
      } catch (error) {
        problems.push(error)
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
  }
  const writers = Array.from({ length: 24 }, writer)
  for (let round = 0; round < 4; round += 1) {
    const before = committed.length
    await eventually(() => committed.length > before + 100)
    if (round % 2 === 0) await server.kill()
    else await server.stop()
    await server.start()
  }
  const before = committed.length
  await eventually(() => committed.length > before + 100)
  load.running = false
  await Promise.all(writers)

  expect(problems.filter((error) => !isDatabaseUnavailable(error))).toEqual([])
  expect(problems.length).toBeGreaterThan(0)
  const rows = await sql<{ id: number; part: number }[]>`select id, part from written`
  const stored = new Set(rows.map((row) => row.id))
  expect(committed.filter((id) => !stored.has(id))).toEqual([])
  expect(rows.filter((row) => row.part !== 2)).toEqual([])
  await sql.end()
})

test('a statement of a transaction whose connection was cut never runs outside of it', async () => {
  await using server = await startOwnPostgres()
  const sql = connect(server.url(), { name: 'cut', max: 1 })
  const killer = connect(server.url(), { name: 'killer', max: 1 })
  await sql`create table written (id int primary key)`
  const attempt = sql.begin(async (tx) => {
    const [row] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
    await killer`select pg_terminate_backend(${row!.pid})`
    await eventually(async () => {
      const [gone] = await killer<{ gone: boolean }[]>`
        select not exists (select from pg_stat_activity where pid = ${row!.pid}) as gone`
      return gone!.gone
    })
    // This query reopens the connection.
    await sql`select 1`.catch(() => sql`select 1`)
    await tx`insert into written (id) values (1)`
  })
  await expect(attempt).rejects.toSatisfy(isDatabaseUnavailable)
  await eventually(async () => (await sql`select 1`).count === 1)
  expect(await sql`select id from written`).toHaveLength(0)
  await sql.end()
  await killer.end()
})
