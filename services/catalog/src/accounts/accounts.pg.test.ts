import { newId } from '@licensing/database/ids'
import { beforeEach, expect, test } from 'vitest'
import { catalogOfFile, givenTenant, outcomeOf, outcomesOf } from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('name and address for alerts can be changed separately, and an invalid name or address changes nothing', async () => {
  const { accountId } = tenant
  expect(await calls.updateAccount({ accountId, name: 'Ünï ☂' })).toMatchObject({ name: 'Ünï ☂' })
  const withAddress = await calls.updateAccount({ accountId, alertEmail: 'ops@localhost' })
  expect(withAddress).toMatchObject({ name: 'Ünï ☂', alertEmail: 'ops@localhost' })
  expect(await calls.updateAccount({ accountId })).toEqual(withAddress)
  for (const name of ['', 'x'.repeat(201), 'nul\0']) {
    const change = { accountId, name, alertEmail: 'a@b' }
    expect(await outcomeOf(calls.updateAccount(change))).toBe('validation_failed /name')
  }
  const wrong = calls.updateAccount({ accountId, name: '', alertEmail: 'nobody' })
  expect(await outcomeOf(wrong)).toBe('validation_failed /name /alert_email')
  expect(await calls.getAccount({ accountId })).toEqual(withAddress)
  const cleared = await calls.updateAccount({ accountId, alertEmail: '' })
  expect(cleared.alertEmail).toBeUndefined()
  expect(await calls.getAccount({ accountId })).toEqual(cleared)
})

test('an account that does not exist is not found', async () => {
  for (const accountId of ['acct_x', newId('acct')]) {
    const attempts = [
      calls.getAccount({ accountId }),
      calls.updateAccount({ accountId, name: 'x' }),
      calls.createApplication({ accountId, name: 'x' }),
      calls.createApiKey({ accountId, name: 'x', scopes: ['read'] }),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'not_found'))
  }
})
