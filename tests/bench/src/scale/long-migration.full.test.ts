import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { givenPopulation } from './population.ts'

const count = 1_000_000
const migrations = {
  '9001-column.sql': 'alter table licences add column region text;',
  '9002-index.sql': `-- without a transaction
drop index concurrently if exists licences_region;
create index concurrently licences_region on licences (application_id, external_ref, region, id);
`,
  '9003-check.sql': `alter table licences add constraint licences_region_check check (length(region) < 100) not valid;`,
  '9004-validate.sql': `-- without a transaction
alter table licences validate constraint licences_region_check;
`,
}

test('with 1,000,000 licences, a column, an index and a check are added while licences are issued and suspended: no request fails or waits for long', async () => {
  await using folder = await makeTemporaryFolder()
  for (const [file, text] of Object.entries(migrations)) await writeFile(join(folder.path, file), text)
  await using stack = await startStack({ environment: { RATE_LIMIT_PER_MINUTE: '1000000' } })
  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 4, statementTimeoutMs: 600_000 })
  const { commonPlan } = await givenPopulation(stack, sql, count)

  const state = { running: true, requests: 0, slowestMs: 0, failures: [] as unknown[] }
  const timed = async (request: () => Promise<{ status: number; body: unknown }>) => {
    const from = performance.now()
    const answer = await request()
    state.slowestMs = Math.max(state.slowestMs, performance.now() - from)
    state.requests += 1
    if (answer.status >= 300) state.failures.push(answer)
    return answer
  }
  const worker = async () => {
    while (state.running) {
      const headers = { 'idempotency-key': randomUUID() }
      const body = { external_ref: randomUUID(), plan_id: commonPlan }
      const path = `/v1/apps/${stack.appId}/licences`
      const { body: licence } = await timed(() => stack.api.post(path, { headers, body }))
      await timed(() => stack.api.post(`/v1/licences/${(licence as { id: string }).id}/suspend`))
    }
  }
  const load = Promise.all([worker(), worker()])
  await eventually(() => state.requests > 100)
  state.slowestMs = 0
  const began = performance.now()
  const applied = await migrate(sql, [{ name: 'next', path: folder.path }])
  const seconds = (performance.now() - began) / 1_000
  state.running = false
  await load
  process.stdout.write(
    `${seconds.toFixed(1)} s of migrations, ${state.requests} requests, slowest ${state.slowestMs.toFixed(0)} ms\n`,
  )
  expect(applied).toHaveLength(4)
  expect(state.failures).toEqual([])
  // A migration waits a second for its lock at most.
  expect(state.slowestMs).toBeLessThan(2_500)
  await sql.end()
}, 600_000)
