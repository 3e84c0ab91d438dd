import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { DATABASE_SERVICES } from '@licensing/local-servers/services'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { buildRelease, buildThisRelease, lastReleases } from './releases.ts'
import { underLoad } from './replace-replicas.ts'

const releases = await lastReleases()
const images = Boolean(process.env['TEST_IMAGES'])
if (releases.length === 0)
  process.stdout.write('there is no release to upgrade from: the upgrade test is skipped\n')

/** The next release may add a column and an index to a table. Earlier releases work with them. */
const expansions = {
  catalog: ['applications', 'name'],
  licensing: ['licences', 'created_at'],
  billing: ['processor_events', 'event_id'],
  notifier: ['deliveries', 'id'],
} as const

async function expand({ databaseUrls }: Stack, folder: string): Promise<void> {
  for (const service of DATABASE_SERVICES) {
    const [table, column] = expansions[service]
    const path = join(folder, service)
    await mkdir(path, { recursive: true })
    await writeFile(join(path, '9998-column.sql'), `alter table ${table} add column of_next_release text;`)
    await writeFile(
      join(path, '9999-index.sql'),
      `-- without a transaction\ncreate index concurrently of_next_release on ${table} (${column});\n`,
    )
    const sql = connect(databaseUrls[service], { name: 'expand', max: 2 })
    expect(await migrate(sql, [{ name: service, path }])).toHaveLength(2)
    await sql.end()
  }
}

test.skipIf(releases.length === 0).each(releases)(
  'under load, every replica is upgraded from $name and rolled back to it, also after new columns and indexes: no request fails and nothing is lost',
  async ({ commit }) => {
    await using folder = await makeTemporaryFolder()
    const old = await buildRelease(commit, folder, images)
    const now = await buildThisRelease(images)
    await underLoad(old, async (stack, replaceAll) => {
      await replaceAll((process) => process.start({}, now))
      await expand(stack, folder.path)
      await replaceAll((process) => process.start({}, old))
      await replaceAll((process) => process.start({}, now))
    })
  },
  900_000,
)
