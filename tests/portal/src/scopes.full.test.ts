import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

portalTests('scopes', (world) => {
  test('actions that the key’s scopes do not allow are absent', async () => {
    const { stack, receiver, open, key, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    const { id } = await one.issue(planId, 'customer-1')
    await one.endpoint(receiver.url('/scopes'))
    await using window = await open({ key: (await key(['read'])).key })
    const { page, button } = window
    for (const [address, absent] of [
      ['/licences', ['Issue licence']],
      [
        `/licences/${id}`,
        [
          'Suspend',
          'Revoke',
          'Retire',
          'Edit',
          'New key',
          'Change plan',
          'Customer link',
          'End customer sessions',
        ],
      ],
      ['/plans', ['New plan', 'New entitlement']],
      [`/plans/${planId}`, ['Archive', 'Edit', 'Set price', 'Save']],
      ['/webhooks', ['Add endpoint', 'Send test event']],
      ['/payments', ['Change cap']],
    ] as const) {
      await page.goto(`${stack.gatewayUrl}/portal${one.at(address)}`)
      await page.locator('main table, main dl').first().waitFor()
      await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
      for (const name of absent) expect(await button(name).count(), `${address} ${name}`).toBe(0)
    }
    expect(window.complaints).toEqual([])
  })

  test('a page that the key may not read names the scope that it needs', async () => {
    const { stack, open, key, vendor } = world()
    const one = await vendor()
    const { id } = await one.issue((await one.plan('Pro')).id, 'customer-1')
    for (const [scopes, sentences] of [
      [
        ['issue'],
        {
          '': 'read',
          [`/licences/${id}`]: 'read',
          '/plans': 'admin or read',
          '/webhooks': 'admin or read',
        },
      ],
      [['read', 'issue', 'revoke'], { '/settings': 'admin' }],
      [['read'], { '/import': 'issue' }],
    ] as const) {
      await using window = await open({ key: (await key(scopes)).key })
      for (const [address, scope] of Object.entries(sentences)) {
        await window.page.goto(`${stack.gatewayUrl}/portal${one.at(address)}`)
        await window.page.getByText(`This page needs a key with the scope ${scope}`).waitFor()
        expect(await window.page.locator('main').getByRole('button').count(), address).toBe(0)
      }
    }
  })

  test('what belongs to the account is absent for a key that is bound to an application', async () => {
    const { stack, open, key, vendor } = world()
    const { appId, at, name } = await vendor()
    const made = await stack.api.post<{ key: string }>('/v1/api-keys', {
      body: { name: 'bound', scopes: ['read', 'admin'], app_id: appId },
    })
    for (const [used, page, sections] of [
      [(await key(['read'])).key, '/payments', ['Payments', 'Refunds', 'Checkouts', 'Fees']],
      [made.body.key, '/payments', ['Payments', 'Refunds', 'Checkouts']],
      [made.body.key, '/settings', ['Applications', 'Customer page', 'Audit log']],
    ] as const) {
      await using window = await open({ key: used, at: at(page) })
      await window.table(sections.at(0)!).waitFor()
      const headings = window.page.getByRole('main').getByRole('heading', { level: 2 })
      await eventually(async () => expect(await headings.allTextContents()).toEqual(sections))
      if (page === '/settings') {
        const rows = window.table('Applications').locator('tbody').getByRole('row')
        await rows.filter({ hasText: name }).waitFor()
        expect(await rows.count()).toBe(1)
        expect(await window.button('New application').count()).toBe(0)
      }
      expect(window.complaints).toEqual([])
    }
  })

  test('a key that may not list keys sees the names of keys in the history, its own and others’', async () => {
    const { stack, open, vendor, key } = world()
    const one = await vendor()
    const { id } = await one.issue((await one.plan('Pro')).id, 'customer-1')
    const support = await key(['read', 'revoke'])
    await stack.api.post(`/v1/licences/${id}/suspend`, { key: support.key })
    await using window = await open({ key: support.key, at: one.at(`/licences/${id}`) })
    await window.page.getByText('because read and revoke suspended it').waitFor()
    const issued = window.table('History').getByRole('row').filter({ hasText: 'issued' })
    await issued.getByText('Demo').waitFor()
    expect(window.complaints).toEqual([])
  })

  test('a key that may not read licences sees their number without a link, and its own row is marked', async () => {
    const { stack, open, vendor, key } = world()
    const one = await vendor()
    await one.issue((await one.plan('Pro')).id, 'customer-1')
    const { key: admin } = await key(['admin'])
    await using window = await open({ at: one.at('/plans'), key: admin })
    const plan = window.table('Plans').getByRole('row', { name: /^Pro/ })
    await plan.getByRole('cell', { name: '1', exact: true }).waitFor()
    expect(await plan.getByRole('link').allTextContents()).toEqual(['Pro'])
    await window.page.goto(`${stack.gatewayUrl}/portal/settings`)
    const rows = window.table('API keys').getByRole('row')
    const marked = rows.filter({ hasText: 'your key' })
    await marked.waitFor()
    expect(await marked.textContent()).toContain(`…${admin.slice(-4)}`)
    expect(await rows.count()).toBeGreaterThan(2)
  })
})
