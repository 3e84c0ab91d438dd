import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { givenTenant, startTestCatalog } from '../../test/catalog.ts'

test('the name and the address for alerts can be changed separately', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const { calls } = catalog
  expect(await calls.updateAccount({ accountId, name: 'Ünï ☂' })).toMatchObject({ name: 'Ünï ☂' })
  const withAddress = await calls.updateAccount({ accountId, alertEmail: 'ops@localhost' })
  expect(withAddress).toMatchObject({ name: 'Ünï ☂', alertEmail: 'ops@localhost' })
  expect(await calls.updateAccount({ accountId })).toEqual(withAddress)
  const cleared = await calls.updateAccount({ accountId, alertEmail: '' })
  expect(cleared.alertEmail).toBeUndefined()
  expect(await calls.getAccount({ accountId })).toEqual(cleared)
})

test('an invalid name or address changes nothing', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const { calls } = catalog
  const before = await calls.getAccount({ accountId })
  for (const name of ['', 'x'.repeat(201), 'nul\0']) {
    await expect(calls.updateAccount({ accountId, name, alertEmail: 'a@b' })).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/name' }],
    })
  }
  await expect(calls.updateAccount({ accountId, name: '', alertEmail: 'nobody' })).rejects.toMatchObject({
    errors: [{ pointer: '/name' }, { pointer: '/alert_email' }],
  })
  expect(await calls.getAccount({ accountId })).toEqual(before)
})

test('an account that does not exist is not found', async () => {
  await using catalog = await startTestCatalog()
  const { calls } = catalog
  for (const accountId of ['acct_x', newId('acct')]) {
    await expect(calls.getAccount({ accountId })).rejects.toMatchObject({ code: 'not_found' })
    await expect(calls.updateAccount({ accountId, name: 'x' })).rejects.toMatchObject({ code: 'not_found' })
    await expect(calls.createApplication({ accountId, name: 'x' })).rejects.toMatchObject({
      code: 'not_found',
    })
    const key = { accountId, name: 'x', scopes: ['read'] }
    await expect(calls.createApiKey(key)).rejects.toMatchObject({ code: 'not_found' })
  }
})
