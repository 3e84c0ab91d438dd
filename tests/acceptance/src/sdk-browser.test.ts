import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { chromium, openPage } from './browser.ts'
import { givenVendor } from './vendor.ts'

let stack: Stack
beforeAll(async () => {
  if (chromium) stack = await sharedStack()
})
afterAll(() => stack?.[Symbol.asyncDispose]())

type Result = { status: string; reason: string | null; feature: boolean; projects: number; stored: boolean }

test.skipIf(!chromium)(
  'a product in a browser, on a page of another origin, activates, goes on offline, and hears of its revocation',
  async () => {
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
           rootKey: vendor.rootKey,
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

/** One module of a page, with React in it. */
async function bundle(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname, loader: 'tsx' },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"development"' },
  })
  return outputFiles[0]!.text
}

test.skipIf(!chromium)(
  'a React component follows the licence with useLicence: each state is rendered, and none after it is unmounted',
  async () => {
    const vendor = await givenVendor(stack)
    await vendor.define('export_pdf', 'feature')
    const { id: planId } = await vendor.plan({ entitlements: [{ key: 'export_pdf', value: 'true' }] })
    const licence = await vendor.issue(planId)
    const options = {
      baseUrl: stack.gatewayUrl,
      appId: vendor.appId,
      rootKey: vendor.rootKey,
      licenceKey: licence.key,
      fingerprint: 'browser-2',
      productVersion: '4.2.0',
      host: 'localhost',
      background: false,
    }
    const script = await bundle(`
      import { LicenceClient } from '@licensing/sdk'
      import { useLicence } from '@licensing/sdk/react'
      import { StrictMode } from 'react'
      import { createRoot } from 'react-dom/client'

      const licence = new LicenceClient(${JSON.stringify(options)})
      const element = document.body.appendChild(document.createElement('div'))
      const seen = []
      let renderings = 0
      new MutationObserver(() => seen.push(element.textContent)).observe(element, {
        childList: true, characterData: true, subtree: true,
      })
      function Licence() {
        renderings += 1
        const { status } = useLicence(licence)
        return <p>{status + ' ' + licence.hasFeature('export_pdf')}</p>
      }
      const until = async (text) => {
        while (element.textContent !== text) await new Promise(requestAnimationFrame)
      }
      const root = createRoot(element)
      root.render(<StrictMode><Licence /></StrictMode>)
      await until('unlicensed false')
      await licence.activate()
      await until('licensed true')
      await licence.deactivate()
      await until('unlicensed false')
      root.unmount()
      const before = renderings
      await licence.activate()
      tell({ seen: seen.filter(Boolean), isBounded: renderings < 20, after: renderings - before })`)
    await using page = await openPage()
    expect(await page.run(script)).toEqual({
      seen: ['starting false', 'unlicensed false', 'licensed true', 'unlicensed false'],
      isBounded: true,
      after: 0,
    })
  },
  120_000,
)
