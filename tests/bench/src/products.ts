import { connect } from '@licensing/database/connect'
import { scaled } from './bench-scale.ts'
import { watchMemory } from './memory.ts'
import { refreshes } from './products/refreshes.ts'
import { revocations } from './products/revocations.ts'
import type { Section } from './report.ts'
import { givenPopulation } from './scale/population.ts'
import { startSetting } from './setting.ts'

/** What installed products cost where the vendor has 1,000,000 licences. */
export async function products(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  using memory = watchMemory(stack)
  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 4, statementTimeoutMs: 600_000 })
  const { count } = await givenPopulation(stack, sql, scaled(1_000_000, 2_000))
  const refreshed = await refreshes(stack, await setting.echoGateway(), sql)
  const revoked = await revocations(stack, sql)
  await sql.end()
  return {
    title: `Installed products of a vendor with ${count.toLocaleString('en')} licences`,
    figures: [...refreshed.figures, ...revoked, ...memory.figures()],
    notes: refreshed.notes,
  }
}
