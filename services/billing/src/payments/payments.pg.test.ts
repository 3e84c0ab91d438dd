import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { anApp, givenTables, insertPayment } from '../../test/tables.ts'
import { findLicencesOf } from './payment-queries.ts'

test('a charge, a checkout session and a sale find exactly the licence that they provisioned, only in their own application', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const app = anApp()
  const [session, sale] = [newId('cs'), newId('sale')]
  await insertPayment(sql, app, { licenceId: 'lic_1', chargeRef: 'ch_1', paymentRef: 'pi_1' })
  await insertPayment(sql, app, { licenceId: 'lic_2', chargeRef: 'ch_1' })
  await insertPayment(sql, app, { licenceId: 'lic_3', paymentRef: 'pi_3' })
  await insertPayment(sql, app, { chargeRef: 'ch_none' })
  await sql`
    insert into checkout_sessions (id, account_id, application_id, plan_id, external_ref, price_id, mode, amount,
      currency, fee_minor, fee_bps, fee_fixed_minor, licence_id, merchant)
    values (${session}, ${app.accountId}, ${app.applicationId}, 'pln_1', 'c', 'p', 'payment', 1, 'eur', 0, 0, 0, 'lic_4',
      'm')`
  await sql`
    insert into sale_events (id, account_id, application_id, sale_id, body_hash, external_ref, plan_id, amount, currency,
      occurred_at, status, licence_id)
    values (${sale}, ${app.accountId}, ${app.applicationId}, 'order-1', '', 'c', 'pln_1', 1, 'eur', now(), 'provisioned',
      'lic_5')`
  const find = async (query: string, of = app) =>
    (await findLicencesOf(sql, { ...of, query }, 20)).map((match) => `${match.matched} ${match.licence_id}`)
  expect(await find('ch_1')).toEqual(['charge_ref lic_2', 'charge_ref lic_1'])
  // Refunds and events show this reference if the processor has no charge.
  expect(await find('pi_3')).toEqual(['charge_ref lic_3'])
  expect(await find(session)).toEqual(['session_id lic_4'])
  expect(await find('order-1')).toEqual(['sale_id lic_5'])
  expect(await find(sale)).toEqual(['sale_id lic_5'])
  for (const nothing of ['ch_none', 'CH_1', 'order', 'pi_1', newId('cs')])
    expect(await find(nothing)).toEqual([])
  for (const other of [
    { ...app, accountId: newId('acct') },
    { ...app, applicationId: newId('app') },
  ]) {
    for (const query of ['ch_1', session, 'order-1', sale]) expect(await find(query, other)).toEqual([])
  }
})
