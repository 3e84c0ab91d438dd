import { keyFiles } from '@licensing/csv/testing/key-files'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectEveryLook } from './looks.ts'
import type { Window } from './window.ts'
import { portalTests } from './world.ts'

interface Sent {
  dry_run?: boolean
  items: { legacy_key: string }[]
}

/** Records the body of each import call from now on. */
function listen({ page }: Window): Sent[] {
  const sent: Sent[] = []
  page.on('request', (request) => {
    if (request.url().endsWith('/licences/import')) sent.push(request.postDataJSON() as Sent)
  })
  return sent
}

const csv = (name: string, text: string) => ({ name, mimeType: 'text/csv', buffer: Buffer.from(text) })

portalTests('import', (world) => {
  test('a file is checked without writing, then imported; each invalid row has its line and reason; a second import finds all rows', async () => {
    const { stack, open, vendor } = world()
    const { app, at, plan, licences } = await vendor()
    const { id: planId } = await plan('Pro')
    const { body } = await stack.api.get<{ code: string }>(`${app}/plans/${planId}`)
    const file = csv(
      'customers.csv',
      [
        'plan_code,legacy_key,note,external_ref',
        `${body.code},OLD-1,,customer-1`,
        `${body.code},"OLD, 2",x,<b>customer-2</b>`,
        'gold,OLD-3,,customer-3',
        `${body.code},OLD-4,`,
        `${body.code},OLD-1,,customer-1`,
        `${body.code},OLD-5,,`,
      ].join('\r\n'),
    )
    await using window = await open({ at: at('/import'), bypassCSP: true })
    const { page, button, field } = window
    const outcome = (name: string) => window.region(name).locator('dl')
    expect(await button('Check').getAttribute('aria-disabled')).toBe('true')
    await field('CSV file').setInputFiles(file)
    expect(await button('Import').getAttribute('aria-disabled')).toBe('true')
    await button('Check').click()
    await page.getByText('Done: 6 of 6').waitFor()
    expect(await outcome('Result of the check').locator('dd').allTextContents()).toEqual(['6', '2', '1', '3'])
    const bad = () => window.table('Invalid rows').locator('tbody').getByRole('row').allTextContents()
    const reasons = [
      expect.stringMatching(/^4OLD-3.*no plan has the code “gold”/) as string,
      expect.stringMatching(/^5OLD-4.*has 3 values where the first line has 4/) as string,
      expect.stringMatching(/^7OLD-5.*external_ref/) as string,
    ]
    await eventually(async () => expect(await bad()).toEqual(reasons))
    expect(await licences()).toEqual([])
    await expectEveryLook(page, 'import-checked')

    await button('Import').click()
    await page.getByText('Done: 6 of 6, 3 refused').waitFor()
    await eventually(async () =>
      expect(await outcome('Result of the import').locator('dd').allTextContents()).toEqual([
        '6',
        '2',
        '1',
        '3',
      ]),
    )
    expect(await bad()).toEqual(reasons)
    const made = await licences()
    expect(made.map(({ external_ref: reference }) => reference).toSorted()).toEqual([
      '<b>customer-2</b>',
      'customer-1',
    ])
    expect(
      await stack.api.post(`${app}/migrate`, { key: null, body: { legacy_key: 'OLD, 2' } }),
    ).toMatchObject({
      status: 200,
    })
    await button('Import').click()
    await eventually(async () =>
      expect(await outcome('Result of the import').locator('dd').allTextContents()).toEqual([
        '6',
        '0',
        '3',
        '3',
      ]),
    )
    expect(await licences()).toHaveLength(2)
  })

  test('rows are sent in calls of 500 with a progress bar; the user can leave the page, which later still shows the file', async () => {
    const { stack, open, vendor } = world()
    const { app, at, plan } = await vendor()
    const { id: planId } = await plan('Pro')
    const { body } = await stack.api.get<{ code: string }>(`${app}/plans/${planId}`)
    const rows = Array.from({ length: 1_201 }, (_, i) => `OLD-${i},customer-${i},${body.code}\n`)
    await using window = await open({ at: at('/import') })
    const { page, button, field } = window
    const sent = listen(window)
    await field('CSV file').setInputFiles(
      csv('many.csv', `legacy_key,external_ref,plan_code\n${rows.join('')}`),
    )
    await button('Check').click()
    await page.getByText('Done: 1,201 of 1,201').waitFor()
    expect(sent.map(({ dry_run: isDry, items }) => [isDry, items.length])).toEqual([
      [true, 500],
      [true, 500],
      [true, 201],
    ])

    const held = Promise.withResolvers<void>()
    await page.route('**/licences/import', async (route) => {
      await held.promise
      return route.continue()
    })
    await button('Import').click()
    const bar = page.getByRole('progressbar', { name: 'Importing many.csv', exact: true })
    await bar.waitFor()
    expect(await bar.getAttribute('value')).toBe('0')
    await window.goTo('Plans')
    held.resolve()
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Import' }).click()
    await page.getByText('Done: 1,201 of 1,201').waitFor()
    expect(await bar.getAttribute('value')).toBe('1201')
    expect(await page.evaluate<string>(`document.querySelector('input[type=file]').files[0].name`)).toBe(
      'many.csv',
    )
    expect(sent.slice(3).map(({ dry_run: isDry, items }) => [isDry, items.length])).toEqual([
      [undefined, 500],
      [undefined, 500],
      [undefined, 201],
    ])
    const { body: found } = await stack.api.get<{ data: unknown[] }>(
      `${app}/licences?external_ref=customer-1200`,
    )
    expect(found.data).toHaveLength(1)
  })

  test('an import that fails shows the reason, and continues when it is tried again', async () => {
    const { stack, open, vendor } = world()
    const { app, at, plan } = await vendor()
    const { id: planId } = await plan('Pro')
    const { body } = await stack.api.get<{ code: string }>(`${app}/plans/${planId}`)
    const rows = Array.from({ length: 600 }, (_, i) => `OLD-${i},customer-${i},${body.code}\n`)
    await using window = await open({ at: at('/import') })
    const { page, button, field } = window
    await field('CSV file').setInputFiles(
      csv('some.csv', `legacy_key,external_ref,plan_code\n${rows.join('')}`),
    )
    await button('Check').click()
    await page.getByText('Done: 600 of 600').waitFor()
    let calls = 0
    await page.route('**/licences/import', (route) =>
      ++calls === 2
        ? route.fulfill({
            status: 500,
            contentType: 'application/problem+json',
            body: JSON.stringify({
              code: 'internal',
              detail: 'something failed on our side',
              request_id: 'r-1',
            }),
          })
        : route.continue(),
    )
    await button('Import').click()
    const alert = page.getByRole('alert')
    await alert.getByText('r-1').waitFor()
    await page.getByText('Stopped at 500 of 600').waitFor()
    await alert.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Done: 600 of 600').waitFor()
    const figures = window.region('Result of the import').locator('dd')
    await eventually(async () => expect(await figures.allTextContents()).toEqual(['600', '100', '500', '0']))
  })

  test.each([
    ['a file without these columns', 'key;customer\n1;2', 'There is no column legacy_key'],
    ['an empty file', '', 'The file is empty'],
    ['another encoding', Buffer.from([0x6c, 0xe9, 0x0a]), 'The file is not UTF-8'],
  ])('%s is refused with an explanation', async (_title, content, words) => {
    const { open, vendor } = world()
    const { at } = await vendor()
    await using window = await open({ at: at('/import') })
    const buffer = Buffer.from(content)
    await window.field('CSV file').setInputFiles({ name: 'x.csv', mimeType: 'text/csv', buffer })
    await window.button('Check').click()
    await window.page.getByRole('alert').getByText(words).waitFor()
    expect(await window.button('Import').getAttribute('aria-disabled')).toBe('true')
  })

  test.each(drawn(keyFiles, 6))(
    `a file of keys (${drawing}): $name`,
    async ({ name, bytes, refused, rows = [], flaws = [], trimmed = [] }) => {
      const { stack, open, vendor } = world()
      const { app, at, licences } = await vendor()
      expect((await stack.api.post(`${app}/plans`, { body: { name: 'Pro', code: 'pro' } })).status).toBe(201)
      await using window = await open({ at: at('/import') })
      const { page, button, field } = window
      const buffer = Buffer.from(bytes)
      await field('CSV file').setInputFiles({ name: 'keys.csv', mimeType: 'text/csv', buffer })
      await button('Check').click()
      if (refused !== undefined) {
        await page
          .getByRole('alert')
          .getByText(refused.replace(/^there|^the/, ''), { exact: false })
          .waitFor()
        expect(await button('Import').getAttribute('aria-disabled')).toBe('true')
        return
      }
      const all = rows.length + flaws.length
      const counts = [all, rows.length, 0, flaws.length].map(String)
      for (const [action, result] of [
        ['Check', 'Result of the check'],
        ['Import', 'Result of the import'],
      ] as const) {
        if (action === 'Import') await button('Import').click()
        const outcome = window.region(result)
        await eventually(async () =>
          expect(await outcome.locator('dd').allTextContents(), name).toEqual(counts),
        )
        const bad = window.table('Invalid rows').locator('tbody').getByRole('row')
        await eventually(async () => {
          const texts = await bad.allTextContents()
          expect(texts).toHaveLength(flaws.length)
          for (const [at, [line, words]] of flaws.entries()) {
            expect(texts[at]).toMatch(new RegExp(`^${line}`))
            expect(texts[at]).toContain(words)
          }
        })
        const said = await outcome.getByText('Blanks around values were removed').allTextContents()
        expect(said).toHaveLength(trimmed.length > 0 ? 1 : 0)
        for (const line of trimmed) expect(said[0]).toMatch(new RegExp(`\\b${line}\\b`))
        if (action === 'Check') expect(await licences()).toEqual([])
      }
      const made = await licences()
      expect(made.map(({ external_ref: reference }) => reference).toSorted()).toEqual(
        rows.map(([, reference]) => reference).toSorted(),
      )
    },
  )

  test('a key that may only read sees which scope the page needs', async () => {
    const { open, key } = world()
    const { key: reader } = await key(['read'])
    await using window = await open({ key: reader, at: '/import' })
    await window.page.getByText('This page needs a key with the scope issue').waitFor()
    expect(await window.field('CSV file').count()).toBe(0)
  })
})
