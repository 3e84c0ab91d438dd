import { drawing, drawn } from '@licensing/test-support/drawn'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { connectProcessor } from './processor.ts'
import { portalTests, type World } from './world.ts'

/** The address of a form, the button that sends it, its values, of which the last is refused, and words of the reason. */
type Form = readonly [at: string, submit: string, values: Record<string, string>, reason: string]

async function givenForms(world: World) {
  await connectProcessor(world)
  const one = await world.vendor()
  await one.define('max_projects', 'limit', '3', 'Projects')
  const { id: planId } = await one.plan('Pro')
  await one.price(planId)
  const { id } = await one.issue(planId, 'customer-1')
  const { id: endpointId } = await one.endpoint(world.receiver.url('/forms'))
  const [plan, licence] = [`/plans/${planId}`, `/licences/${id}`]
  const override = `${licence}?open=override&entitlement=max_projects`
  const customer = { 'Customer reference': 'customer-2', Plan: 'Pro' }
  const price = { 'Price at the processor': 'price_1', Currency: 'eur' }
  const forms: Form[] = [
    [
      '/licences?open=issue',
      'Issue',
      // Longer than 255 characters, and complete: typed text is not cut off.
      { Plan: 'Pro', 'Customer reference': `${'🦊'.repeat(255)}x` },
      'must have 1 to 255 characters',
    ],
    ['/licences?open=issue', 'Issue', { ...customer, 'Maximum activations': 'none' }, 'must be'],
    ['/licences?open=issue', 'Issue', { ...customer, 'Lease in minutes': '30' }, 'needs max_concurrent'],
    [`${licence}?open=edit`, 'Save', { 'Customer reference': 'customer-3', Seats: 'many' }, 'must be'],
    [override, 'Save', { Note: 'promised in ticket 812', Value: 'many' }, 'must be'],
    [override, 'Save', { Value: '25', 'Ends on': '2020-01-01' }, 'must be'],
    [`${licence}?open=checkout`, 'Create link', { 'Return address': 'nowhere' }, 'must be'],
    [plan, 'Save', { Projects: 'many' }, 'must be'],
    [`${plan}?open=edit`, 'Save', { Name: 'Professional', 'Days of a trial': '1000' }, 'at most 366'],
    [`${plan}?open=price`, 'Save', { ...price, Amount: 'a lot' }, 'Enter an amount'],
    [`${plan}?open=price`, 'Save', { ...price, Amount: '49.50', 'Months of updates': '121' }, 'at most 120'],
    ['/plans?open=new-entitlement', 'Create', { Default: '3', Key: 'not allowed' }, 'must'],
    ['/webhooks?open=add-endpoint', 'Add', { URL: 'http://example.com/plain' }, 'must be'],
    [`/webhooks/endpoints/${endpointId}?open=recover`, 'Recover', { Since: 'yesterday' }, 'Use the format'],
    ['/payments?open=cap', 'Change', { Cap: 'a lot' }, 'Enter an amount'],
    ['/settings?open=new-application', 'Create', { Name: 'N'.repeat(201) }, 'must have'],
    [
      `/settings?open=application&edited=${one.appId}`,
      'Save',
      { Name: 'Studio', 'Notice before expiry, in days': '91' },
      'at most 90',
    ],
    ['/settings', 'Save', { 'Alert e-mail': 'nobody' }, 'must be'],
    ['/settings', 'Connect another', { 'Stripe account': 'nonsense' }, 'must'],
  ]
  return forms.map(([at, ...form]) => [one.at(at), ...form] as const)
}

portalTests('forms', (world) => {
  test(`a refused form shows the reason at its field, keeps all input, and has “Try again” (${drawing})`, async () => {
    const forms = await givenForms(world())
    await using window = await world().open()
    const { page } = window
    for (const [at, submit, values, reason] of drawn(forms, 4)) {
      await page.goto(`${world().stack.gatewayUrl}/portal${at}`)
      const form = page.getByRole(at.includes('open=') ? 'dialog' : 'main')
      const fieldOf = (label: string) =>
        window.field(label, form).and(page.locator('input, select, textarea'))
      for (const [label, value] of Object.entries(values)) {
        if (label === 'Plan') await fieldOf(label).selectOption(value)
        else await fieldOf(label).fill(value)
      }
      const last = Object.keys(values).at(-1)!
      // A page may have several forms with a button of this name.
      await window.button(submit, fieldOf(last).locator('xpath=ancestor::form')).click()
      const problem = form.getByRole('alert')
      await problem.getByRole('button', { name: 'Try again' }).waitFor()
      const wrong = fieldOf(last)
      expect(await wrong.getAttribute('aria-invalid'), at).toBe('true')
      const described = (await wrong.getAttribute('aria-describedby'))!.split(' ')
      const texts = await Promise.all(described.map((id) => page.locator(`[id="${id}"]`).textContent()))
      expect(texts.join(), at).toContain(reason)
      for (const [label, value] of Object.entries(values)) {
        if (label !== 'Plan') expect(await fieldOf(label).inputValue(), at).toBe(value)
      }
      await expectAccessible(page, `refused ${submit} ${last}`)
    }
  })
})
