import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests } from './world.ts'

portalTests('webhooks', (world) => {
  test('an endpoint is added for some types, and a test event is sent to the chosen endpoint', async () => {
    const { stack, receiver, open, vendor } = world()
    const { app, at, endpoint } = await vendor()
    const first = await endpoint(receiver.url('/all'))
    await using window = await open({ at: at('/webhooks') })
    const { page, field, button, dialog } = window
    await button('Add endpoint').click()
    const add = dialog('Add endpoint')
    await field('URL', add).fill(receiver.url('/some'))
    await field('licence.suspended', add).check()
    await field('licence.revoked', add).check()
    expect(await field('All events', add).isChecked()).toBe(false)
    await button('Add', add).click()
    await button('Done', dialog('Signing secret')).click()
    const made = await stack.api.get<{ data: { id: string; subscribed_events: string }[] }>(
      `${app}/webhook-endpoints`,
    )
    expect(made.body.data[0]).toMatchObject({ subscribed_events: 'licence.suspended,licence.revoked' })

    await button('Send test event').click()
    const send = dialog('Send test event')
    await field('Endpoint', send).selectOption(receiver.url('/all'))
    await button('Send', send).click()
    // The table refreshes by itself.
    const rows = window.table('Deliveries').getByRole('row').filter({ hasText: 'webhook.test' })
    await rows.filter({ hasText: 'delivered' }).waitFor()
    expect(receiver.requests.filter(({ path }) => path === '/all')).toHaveLength(1)
    expect(receiver.requests.filter(({ path }) => path === '/some')).toHaveLength(0)

    const region = window.region('Deliveries')
    for (const [name, none, some] of [
      ['Status', 'failed', 'delivered'],
      ['Type', 'licence.created', 'webhook.test'],
      ['Endpoint', made.body.data[0]!.id, first.id],
    ] as const) {
      await field(name, region).selectOption(none)
      await page.getByText('No delivery matches these filters.').waitFor()
      await field(name, region).selectOption(some)
      await rows.waitFor()
      expect(page.url()).toContain(some)
    }
    await page.reload()
    await rows.waitFor()
    expect(await field('Status', region).inputValue()).toBe('delivered')
  })

  test('a delivery shows its payload and attempts, and is replayed, also to another endpoint', async () => {
    const { stack, receiver, open, vendor } = world()
    const { at, plan, issue, endpoint, attempted } = await vendor()
    receiver.answerWith(({ path }) => (path === '/broken' ? { status: 500, body: 'no space left' } : {}))
    await endpoint(receiver.url('/broken'), 'licence.suspended')
    await endpoint(receiver.url('/whole'), 'licence.retired')
    const { id: planId } = await plan()
    const { id } = await issue(planId, 'customer-1')
    await stack.api.post(`/v1/licences/${id}/suspend`)
    await attempted(1)
    await using window = await open({ at: at(`/licences/${id}`) })
    const { page, field, button, dialog, table } = window
    await table('Deliveries').getByRole('link', { name: 'licence.suspended' }).click()
    await window.heading('licence.suspended').waitFor()
    await table('Attempts').getByText('no space left').waitFor()
    expect(await window.region('Payload').textContent()).toContain(`"licence_id": "${id}"`)

    receiver.answerWith({})
    await button('Replay').click()
    await eventually(async () => {
      expect(await table('Attempts').getByRole('row').count()).toBe(3)
      expect(await page.locator('dl').textContent()).toContain('delivered')
    })
    const [, replayed] = receiver.requests.filter(({ path }) => path === '/broken')
    const before = page.url()
    await button('Replay to another endpoint').click()
    const other = dialog('Replay to another endpoint')
    await field('Endpoint', other).selectOption(receiver.url('/whole'))
    await button('Replay', other).click()
    await eventually(() => expect(page.url()).not.toBe(before))
    await eventually(() => {
      const [copy] = receiver.requests.filter(({ path }) => path === '/whole')
      expect(copy?.body.toString()).toBe(replayed?.body.toString())
    })
    await table('Attempts').getByText('200').waitFor()
  })

  test('an endpoint shows its health and recovers missed events; rotating its secret and deleting it need a confirmation', async () => {
    const { stack, receiver, open, vendor } = world()
    const { app, at, plan, issue, endpoint } = await vendor()
    const { id: planId } = await plan()
    const licence = await issue(planId, 'customer-1')
    const { id } = await endpoint(receiver.url('/one'))
    receiver.answerWith(({ path }) => (path === '/one' ? { status: 503 } : {}))
    await stack.api.post(`/v1/licences/${licence.id}/suspend`)
    await eventually(() => expect(receiver.requests.some(({ path }) => path === '/one')).toBe(true))
    await stack.api.delete(`${app}/webhook-endpoints/${id}`)
    const next = await endpoint(receiver.url('/next'))
    await using window = await open({ at: at('/webhooks') })
    const { page, field, button, dialog, confirm } = window
    await window
      .table('Endpoints')
      .getByRole('link', { name: receiver.url('/one') })
      .click()
    await window.region('Health').getByText('disabled', { exact: true }).waitFor()
    for (const name of ['Rotate secret', 'Delete', 'Recover missed events']) {
      expect(await button(name).count(), name).toBe(0)
    }
    await page.goBack()
    await window
      .table('Endpoints')
      .getByRole('link', { name: receiver.url('/next') })
      .click()
    await window.region('Health').getByText('none yet').waitFor()

    const recover = dialog('Recover missed events')
    for (const [since, text] of [
      ['2026-01-01 00:00', /^1 event/],
      ['2026-01-01', /^0 events/],
    ] as const) {
      await button('Recover missed events').click()
      await field('Since', recover).fill(since)
      await button('Recover', recover).click()
      await recover.getByText(text).waitFor()
      await button('Done', recover).click()
      await window
        .table('Deliveries')
        .getByRole('row', { name: /licence.suspended.*delivered/ })
        .waitFor()
    }
    expect(receiver.requests.filter(({ path }) => path === '/next')).toHaveLength(1)

    await button('Rotate secret').click()
    await confirm('Rotate secret')
    const shown = dialog('Signing secret')
    await button('Copy secret', shown).click()
    const rotated = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(rotated).toMatch(/^whsec_/)
    expect(rotated).not.toBe(next.secret)
    await button('Done', shown).click()

    await button('Delete').click()
    await confirm('Delete')
    await window.heading('Webhooks').waitFor()
    const { body } = await stack.api.get<{ status: string }>(`${app}/webhook-endpoints/${next.id}`)
    expect(body.status).toBe('disabled')
  })

  test('an endpoint is edited, paused and resumed, and says when it will be disabled', async () => {
    const { stack, receiver, open, vendor } = world()
    const { app, at, plan, issue, endpoint } = await vendor()
    const { id: planId } = await plan()
    const licence = await issue(planId, 'customer-1')
    const { id } = await endpoint(receiver.url('/one'))
    const shown = async () =>
      (
        await stack.api.get<{ disables_at: string; health: { failing_since: string } }>(
          `${app}/webhook-endpoints/${id}`,
        )
      ).body
    await using window = await open({ at: at(`/webhooks/endpoints/${id}`) })
    const { page, field, button, dialog } = window
    await button('Edit').click()
    const edit = dialog('Edit endpoint')
    await field('URL', edit).fill(receiver.url('/two'))
    await edit.getByLabel('licence.suspended').check()
    await field('Description', edit).fill('Shop backend')
    await field('Headers', edit).fill('X-Api-Key: first\nhost: second')
    await field('Plans', edit).selectOption(planId)
    await field('Signature', edit).selectOption('standard')
    await button('Save', edit).click()
    await edit.getByText('cannot be set').first().waitFor()
    expect(await field('Description', edit).inputValue()).toBe('Shop backend')
    await field('Headers', edit).fill('X-Api-Key: first\nX-Other: second')
    await button('Save', edit).click()
    const secret = dialog('Signing secret')
    await button('Copy secret', secret).click()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toMatch(/^whsec_.*=$/)
    await button('Done', secret).click()
    const names = { 'X-Api-Key': null, 'X-Other': null }
    const edited = {
      url: receiver.url('/two'),
      subscribed_events: 'licence.suspended',
      description: 'Shop backend',
    }
    const expected = { ...edited, headers: names, plans: [planId], signature: 'standard' }
    expect(await shown()).toMatchObject(expected)

    await button('Edit').click()
    await field('Headers', edit).fill('X-Api-Key: ••••\nX-Third: third')
    await button('Save', edit).click()
    await edit.getByText('Enter the value of X-Api-Key again').first().waitFor()
    await field('Headers', edit).fill('')
    await field('Plans', edit).selectOption([])
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    expect(await shown()).toMatchObject({ ...edited, headers: null, plans: null, signature: 'standard' })

    await button('Pause').click()
    await window.region('Health').getByText('paused', { exact: true }).waitFor()
    expect(await shown()).toMatchObject({ paused: true })
    receiver.answerWith({ status: 503 })
    await stack.api.post(`/v1/licences/${licence.id}/suspend`)
    await window.table('Deliveries').getByText('pending').waitFor()
    await button('Resume').click()
    // It names the failure, its begin and end, and the remedies.
    const warning = window.region('Health').getByText(/Deliveries to this endpoint fail since/)
    await warning.waitFor()
    expect(await warning.textContent()).toMatch(
      /fail since .+\d{4}.*; .* is disabled permanently at about .+\d{4}.*\. Repair it, or change its URL with “Edit”.* use “Pause”/,
    )
    const { health, disables_at } = await shown()
    const times = await warning
      .locator('time')
      .evaluateAll((all) => all.map((time) => (time as { dateTime?: string }).dateTime))
    expect(times).toEqual([health.failing_since, disables_at])
    expect(await shown()).toMatchObject({ paused: false })
    await expectAccessible(page, 'endpoint-failing')
  })
})
