import { fullTest, isFull } from '@licensing/test-support/drawn'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { violations } from './looks.ts'
import { portalTests } from './world.ts'

// The library is large, so the search may appear late on a busy machine.
const searchField = (page: Page) => page.getByLabel('Search operations')

const languages = ['curl', 'TypeScript', 'Python', 'Go', 'Java', 'C#', 'PHP', 'Ruby']

portalTests('the API reference', (world) => {
  fullTest(
    'it shows operations with samples by language, events and a search, within its policy, only from the gateway and accessible',
    async () => {
      const { stack, open } = world()
      await using window = await open({ key: null })
      const { page, complaints } = window
      complaints.length = 0
      const hosts = new Set<string>()
      page.on('request', (request) => hosts.add(new URL(request.url()).origin))
      await page.goto(`${stack.gatewayUrl}/docs`)
      await searchField(page).fill('issue a licence')
      const found = page.locator('.opblock', { hasText: '/licences' })
      await found.locator('.opblock-summary-control').click()
      const samples = found.locator('.samples details')
      await samples.last().waitFor()
      expect(await samples.locator('summary').allTextContents()).toEqual(languages)
      await samples.nth(1).locator('summary').click()
      await samples.nth(1).getByText("licensing.post('/v1/apps/{app_id}/licences'").waitFor()
      const event = page.locator('.opblock', { hasText: 'licence.suspended' })
      await event.locator('.opblock-summary-control').click()
      await event.getByText('Webhook-Signature').first().waitFor()
      expect([...hosts]).toEqual([stack.gatewayUrl])
      expect(complaints).toEqual([])
      // The library has buttons in buttons.
      const violated = await violations(page, undefined, isFull ? 'html' : '.opblock.is-open')
      expect(violated.filter((each) => !each.startsWith('nested-interactive'))).toEqual([])
    },
  )
})
