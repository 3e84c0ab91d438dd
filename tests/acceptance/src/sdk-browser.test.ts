import { startStack } from '@licensing/test-support/stack'
import { expect, test } from 'vitest'
import { chromium, openPage } from './browser.ts'
import { givenVendor } from './vendor.ts'

type Result = { status: string; reason: string | null; feature: boolean; projects: number; stored: boolean }

test.skipIf(!chromium)(
  'a product in a browser, on a page of another origin, activates, goes on offline, and hears of its revocation',
  async () => {
    await using stack = await startStack({ environment: { PRODUCT_RATE_PER_MINUTE: '100000' } })
    const vendor = await givenVendor(stack)
    await vendor.define('export_pdf', 'feature')
    await vendor.define('max_projects', 'limit', '3')
    const { id: planId } = await vendor.plan({ entitlements: [{ key: 'export_pdf', value: 'true' }] })
    const licence = await vendor.issue(planId)
    await using page = await openPage()
    const open = (baseUrl: string, then: string) =>
      page.run<Result>(
        `import { LicenceClient, webStorageStore } from '@licensing/sdk'
         const stored = localStorage.length > 0
         const options = ${JSON.stringify({
           baseUrl,
           appId: vendor.appId,
           licenceKey: licence.key,
           fingerprint: 'browser-1',
           productVersion: '4.2.0',
         })}
         const product = new LicenceClient({
           ...options, host: location.hostname, store: webStorageStore(localStorage), background: false,
         })
         await product.activate()
         ${then}
         const { status, reason } = product.state
         tell({
           status, reason, feature: product.hasFeature('export_pdf'), projects: product.limit('max_projects'), stored,
         })`,
      )

    const granted = { status: 'licensed', reason: null, feature: true, projects: 3 }
    expect(await open(stack.gatewayUrl, '')).toEqual({ ...granted, stored: false })
    // Nobody listens there: the token in the page's storage counts.
    expect(await open('http://127.0.0.1:9', '')).toEqual({ ...granted, stored: true })
    expect((await stack.api.post(`/v1/licences/${licence.id}/revoke`)).status).toBe(200)
    expect(await open(stack.gatewayUrl, 'await product.check()')).toEqual({
      status: 'refused',
      reason: 'revoked',
      feature: false,
      projects: 0,
      stored: true,
    })
  },
  120_000,
)
