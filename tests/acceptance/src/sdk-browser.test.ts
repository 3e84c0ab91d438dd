import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { chromium } from '@licensing/test-support/chromium'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { expectStatus, givenStack, givenVendor } from './vendor.ts'

const stack = await givenStack()
const vendor = await givenVendor(stack)
await vendor.define('export_pdf', 'feature')
await vendor.define('max_projects', 'limit', '3')
const plan = await vendor.plan({ entitlements: [{ key: 'export_pdf', value: 'true' }] })

/** The options of a product on the page, as source. */
const optionsOf = (licence: { key: string }, fingerprint: string, baseUrl = stack.gatewayUrl) =>
  JSON.stringify({
    baseUrl,
    appId: vendor.appId,
    rootKey: vendor.rootKey,
    licenceKey: licence.key,
    fingerprint,
    productVersion: '4.2.0',
    host: 'localhost',
    background: false,
  })

type Result = { status: string; reason: string | null; feature: boolean; projects: number; stored: boolean }

test.skipIf(!chromium)(
  'a product in a browser, on a page of another origin, activates, works offline, and notices its revocation',
  async () => {
    const licence = await vendor.issue(plan.id)
    await using page = await openPage()
    const open = (baseUrl: string, then: string) =>
      page.run<Result>(
        `import { LicenceClient, webStorageStore } from '@licensing/sdk'
         const stored = localStorage.length > 0
         const options = ${optionsOf(licence, 'browser-1', baseUrl)}
         const product = new LicenceClient({ ...options, store: webStorageStore(localStorage) })
         await product.activate()
         ${then}
         const { status, reason } = product.state
         tell({
           status, reason, feature: product.hasFeature('export_pdf'), projects: product.limit('max_projects'), stored,
         })`,
      )

    const granted = { status: 'licensed', reason: null, feature: true, projects: 3 }
    expect(await open(stack.gatewayUrl, '')).toEqual({ ...granted, stored: false })
    // No server listens at this address, so the product uses the token in the page's storage.
    expect(await open('http://127.0.0.1:9', '')).toEqual({ ...granted, stored: true })
    expectStatus(await vendor.verb('revoke', licence.id), 200)
    expect(await open(stack.gatewayUrl, 'await product.check()')).toEqual({
      status: 'refused',
      reason: 'revoked',
      feature: false,
      projects: 0,
      stored: true,
    })
  },
  240_000,
)

/** Bundles a module of a page, including React. */
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
    const licence = await vendor.issue(plan.id)
    const script = `
      import { LicenceClient } from '@licensing/sdk'
      import { useLicence } from '@licensing/sdk/react'
      import { StrictMode } from 'react'
      import { createRoot } from 'react-dom/client'

      const licence = new LicenceClient(${optionsOf(licence, 'browser-2')})
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
      tell({ seen: seen.filter(Boolean), isBounded: renderings < 20, after: renderings - before })`
    await using page = await openPage()
    expect(await page.run(script)).toEqual({
      seen: ['starting false', 'unlicensed false', 'licensed true', 'unlicensed false'],
      isBounded: true,
      after: 0,
    })
  },
  240_000,
)

const limitMs = 100_000

interface BrowserPage extends AsyncDisposable {
  /**
   * Reloads the page and runs this module in it, bundled with what it imports. The result is the value that it passes to
   * `tell`. The page's storage is kept between runs.
   */
  run<T>(script: string): Promise<T>
}

/** A page in a headless browser, with its own origin. */
async function openPage(): Promise<BrowserPage> {
  await using started = new AsyncDisposableStack()
  const site = started.use(await startSite())
  const profile = started.use(await makeTemporaryFolder())
  const flags = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    `--user-data-dir=${profile.path}`,
  ]
  const browser = spawn(chromium!, [...flags, site.url], { stdio: 'ignore', detached: true })
  started.defer(async () => {
    const ended = once(browser, 'exit')
    process.kill(-browser.pid!, 'SIGKILL')
    await ended
  })
  const running = started.move()
  return {
    run: async <T>(script: string) => JSON.parse(await site.run(await bundle(script))) as T,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

interface Site extends AsyncDisposable {
  readonly url: string
  run(script: string): Promise<string>
}

/** A web server with one page. The page requests a module to run, reports the result, and reloads. */
async function startSite(): Promise<Site> {
  let script = Promise.withResolvers<string>()
  let result = Promise.withResolvers<string>()

  const requests: string[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname } = new URL(request.url!, 'http://localhost')
    requests.push(pathname)
    const send = (type: string, body: string) => response.writeHead(200, { 'content-type': type }).end(body)
    if (pathname === '/') send('text/html', page)
    else if (pathname === '/script.js') send('text/javascript', await script.promise)
    else if (pathname === '/result') {
      const reported = await text(request)
      script = Promise.withResolvers()
      result.resolve(reported)
      response.writeHead(204).end()
    } else response.writeHead(404).end()
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.writeHead(500).end())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}/`,
    run(next) {
      result = Promise.withResolvers()
      script.resolve(next)
      const late = setTimeout(() => {
        const asked = requests.slice(-10).join(' ')
        result.reject(new Error(`the page reported nothing within ${limitMs} ms; it asked for: ${asked}`))
      }, limitMs)
      return result.promise.finally(() => clearTimeout(late))
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

// Chromium ends its requests with ERR_NETWORK_CHANGED when the machine gets or loses a network interface, for example of a
// container. If the script could not be loaded, the page tries again.
const page = `<!doctype html>
  <title>Product</title>
  <script>
    const tell = async (result) => {
      await fetch('/result', { method: 'POST', body: JSON.stringify(result) })
      location.reload()
    }
    addEventListener('error', (event) => tell({ error: String(event.message) }))
    addEventListener('unhandledrejection', (event) => tell({ error: String(event.reason) }))
  </script>
  <script type="module" src="/script.js" onerror="location.reload()"></script>`
