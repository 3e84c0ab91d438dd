import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

/** Debian's Chromium, or another that CHROMIUM names; undefined where there is none. */
export const chromium = [process.env['CHROMIUM'], '/usr/bin/chromium'].find(
  (path) => path && existsSync(path),
)

const limitMs = 45_000

export interface BrowserPage extends AsyncDisposable {
  /**
   * Reloads the page and runs this module in it; what it hands to `tell` is the answer. It can import
   * `@licensing/sdk`, as it is written here with only the types taken out. Storage is kept from one run to the next.
   */
  run<T>(script: string): Promise<T>
}

/** A page in a headless browser, of an origin that is its own. */
export async function openPage(): Promise<BrowserPage> {
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
    run: async <T>(script: string) => JSON.parse(await within(limitMs, site.run(script))) as T,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`the page reported nothing within ${ms} ms`)), ms)
  return Promise.race([promise, late.promise]).finally(() => clearTimeout(timer))
}

interface Site extends AsyncDisposable {
  readonly url: string
  run(script: string): Promise<string>
}

/** A web server with one page, which asks for what to run, reports the result, and starts again. */
async function startSite(): Promise<Site> {
  const sdk = dirname(fileURLToPath(import.meta.resolve('@licensing/sdk')))
  const jose = createRequire(join(sdk, 'index.ts')).resolve('jose')
  const folders: Record<string, string> = { sdk, jose: dirname(jose) }
  const imports = { '@licensing/sdk': '/sdk/index.ts', jose: `/jose${jose.slice(dirname(jose).length)}` }
  let script = Promise.withResolvers<string>()
  let result = Promise.withResolvers<string>()

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname } = new URL(request.url!, 'http://localhost')
    const send = (type: string, body: string) => response.writeHead(200, { 'content-type': type }).end(body)
    const [, root, ...rest] = pathname.split('/')
    if (pathname === '/') send('text/html', page(imports))
    else if (pathname === '/script.js') send('text/javascript', await script.promise)
    else if (pathname === '/result') {
      script = Promise.withResolvers()
      result.resolve(await text(request))
      response.writeHead(204).end()
    } else if (folders[root!]) {
      const code = await readFile(join(folders[root!]!, ...rest), 'utf8')
      send('text/javascript', pathname.endsWith('.ts') ? stripTypeScriptTypes(code) : code)
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
      return result.promise
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const page = (imports: object) => `<!doctype html>
  <title>Product</title>
  <script type="importmap">${JSON.stringify({ imports })}</script>
  <script>
    const tell = async (result) => {
      await fetch('/result', { method: 'POST', body: JSON.stringify(result) })
      location.reload()
    }
    addEventListener('error', (event) => tell({ error: String(event.message) }))
    addEventListener('unhandledrejection', (event) => tell({ error: String(event.reason) }))
  </script>
  <script type="module" src="/script.js"></script>`
