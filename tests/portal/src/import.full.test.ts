import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import type { Window } from './window.ts'
import { portalTests, type World } from './world.ts'

interface Sent {
  dry_run?: boolean
  items: { legacy_key: string }[]
}

/** The import page with a vendor who has the plan `pro`. */
async function givenPage({ stack, open, vendor }: World) {
  const one = await vendor()
  const made = await stack.api.post(`${one.app}/plans`, { body: { name: 'Pro', code: 'pro' } })
  expect(made.status).toBe(201)
  const window = await open({ at: one.at('/import') })
  const choose = (text: string | Buffer) =>
    window
      .field('CSV file')
      .setInputFiles({ name: 'keys.csv', mimeType: 'text/csv', buffer: Buffer.from(text) })
  const figures = async (result: 'check' | 'import', ...expected: string[]) => {
    const shown = window.region(`Result of the ${result}`).locator('dd')
    await eventually(async () => expect(await shown.allTextContents()).toEqual(expected))
  }
  const close = () => window[Symbol.asyncDispose]()
  return { ...one, window, choose, figures, [Symbol.asyncDispose]: close }
}

/** A file with many keys. */
const manyKeys = (count: number) =>
  `legacy_key,external_ref,plan_code\n${Array.from({ length: count }, (_, at) => `OLD-${at},customer-${at},pro\n`).join('')}`

/** Records the body of each import call from now on. */
function listen({ page }: Window): Sent[] {
  const sent: Sent[] = []
  page.on('request', (request) => {
    if (request.url().endsWith('/licences/import')) sent.push(request.postDataJSON() as Sent)
  })
  return sent
}

portalTests('import', (world) => {
  test('a file is checked without writing, then imported; each invalid row has its line and reason; a second import finds all rows', async () => {
    await using given = await givenPage(world())
    const { app, window, choose, figures, licences } = given
    const { page, button } = window
    expect(await button('Check').getAttribute('aria-disabled')).toBe('true')
    await choose(
      [
        'plan_code,legacy_key,note,external_ref,expires_on,max_activations,metadata.crm',
        'pro,OLD-1,,customer-1,2099-01-31,3,A-17',
        'pro,"OLD, 2",x, <b>customer-2</b>,,,',
        'gold,OLD-3,,customer-3,,,',
        'pro,OLD-4,',
        'pro,OLD-1,,customer-1,2099-01-31,3,A-17',
        'pro,OLD-5,,customer-5,2020-01-31,,',
      ].join('\r\n'),
    )
    expect(await button('Import').getAttribute('aria-disabled')).toBe('true')
    await button('Check').click()
    await page.getByText('Done: 6 of 6').waitFor()
    await figures('check', '6', '2', '1', '3')
    await page.getByText('The column note is ignored').waitFor()
    await page.getByText(/Blanks around values were removed.* 3/).waitFor()
    const bad = () => window.table('Invalid rows').locator('tbody').getByRole('row').allTextContents()
    const reasons = [
      expect.stringMatching(/^4OLD-3.*no plan has the code “gold”/) as string,
      expect.stringMatching(/^5OLD-4.*has 3 values where the first line has 7/) as string,
      expect.stringMatching(/^7OLD-5.*expires_on must be in the future/) as string,
    ]
    await eventually(async () => expect(await bad()).toEqual(reasons))
    expect(await licences()).toEqual([])
    await expectAccessible(page, 'import-checked')

    await button('Import').click()
    await page.getByText('Done: 6 of 6, 3 refused').waitFor()
    await figures('import', '6', '2', '1', '3')
    expect(await bad()).toEqual(reasons)
    const references = async () => (await licences()).map(({ external_ref: reference }) => reference)
    expect((await references()).toSorted()).toEqual(['<b>customer-2</b>', 'customer-1'])
    const ended = (await licences()).filter(({ external_ref: reference }) => reference === 'customer-1')
    const restrictions = { max_activations: 3 }
    const fields = { expires_on: '2099-01-31T23:59:59.999Z', restrictions, metadata: { crm: 'A-17' } }
    expect(ended).toMatchObject([fields])
    const migrated = await world().stack.api.post(`${app}/migrate`, {
      key: null,
      body: { legacy_key: 'OLD, 2' },
    })
    expect(migrated.status).toBe(200)
    await button('Import').click()
    await figures('import', '6', '0', '3', '3')
    expect(await references()).toHaveLength(2)
  })

  test('rows are sent in calls of 500 with a progress bar, while the user may leave the page; an import that failed continues', async () => {
    await using given = await givenPage(world())
    const { app, window, choose, figures } = given
    const { page, button } = window
    const sent = listen(window)
    const sizes = () => sent.splice(0).map(({ dry_run: isDry, items }) => [isDry, items.length])
    await choose(manyKeys(1_201))
    await button('Check').click()
    await page.getByText('Done: 1,201 of 1,201').waitFor()
    expect(sizes()).toEqual([500, 500, 201].map((size) => [true, size]))

    const held = Promise.withResolvers<void>()
    const failure = { code: 'internal', detail: 'something failed on our side', request_id: 'r-1' }
    await page.route('**/licences/import', async (route) => {
      await held.promise
      if (sent.length !== 2) return route.continue()
      return route.fulfill({
        status: 500,
        contentType: 'application/problem+json',
        body: JSON.stringify(failure),
      })
    })
    await button('Import').click()
    const bar = page.getByRole('progressbar', { name: 'Importing keys.csv', exact: true })
    await bar.waitFor()
    expect(await bar.getAttribute('value')).toBe('0')
    await window.goTo('Plans')
    held.resolve()
    await window.goTo('Import')
    const alert = page.getByRole('alert')
    await alert.getByText('r-1').waitFor()
    await page.getByText('Stopped at 500 of 1,201').waitFor()
    await button('Try again', alert).click()
    await page.getByText('Done: 1,201 of 1,201').waitFor()
    await figures('import', '1,201', '701', '500', '0')
    expect(await bar.getAttribute('value')).toBe('1201')
    expect(sizes()).toEqual([500, 500, 500, 500, 201].map((size) => [undefined, size]))
    expect(await page.evaluate<string>(`document.querySelector('input[type=file]').files[0].name`)).toBe(
      'keys.csv',
    )
    const last = `${app}/licences?external_ref=customer-1200`
    expect((await world().stack.api.get<{ data: unknown[] }>(last)).body.data).toHaveLength(1)
  })

  test('a file of another form or encoding is refused with an explanation', async () => {
    await using given = await givenPage(world())
    const { window, choose } = given
    for (const [content, words] of [
      ['key;customer\n1;2', 'There is no column legacy_key'],
      ['', 'The file is empty'],
      [Buffer.from([0x6c, 0xe9, 0x0a]), 'The file is not UTF-8'],
    ] as const) {
      await choose(content)
      await window.button('Check').click()
      await window.page.getByRole('alert').getByText(words).waitFor()
      expect(await window.button('Import').getAttribute('aria-disabled')).toBe('true')
    }
  })
})
