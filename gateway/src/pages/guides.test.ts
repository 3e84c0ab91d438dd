import { ensureGuides } from '@licensing/guides/build'
import { createHash } from 'node:crypto'
import {
  cp,
  lstat,
  mkdir,
  mkdtempDisposable,
  readdir,
  readFile,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { gatewayOfFile, startGateway } from '../../test/gateway.ts'

const docs = fileURLToPath(new URL('../../../docs', import.meta.url))
const guidesFolder = join(docs, 'site/dist')
await ensureGuides(() => undefined)
const gateway = await gatewayOfFile({ guidesFolder })
const namesIn = async (folder: string) =>
  (await readdir(join(docs, folder), { recursive: true }))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name.replace(/\.md$/, '')}`)
// The page about test suites is only for developers of the service, and is not served.
const operations = (await namesIn('operations')).filter((path) => path !== 'operations/test-suites')
const paths = [...(await namesIn('guides')), ...operations].toSorted()

const get = (path: string) => fetch(`${gateway.url}${path}`)

test('exactly the guides of the repository are served and listed', async () => {
  const list = await get('/docs/guides')
  expect([list.status, list.url]).toEqual([200, `${gateway.url}/docs/guides/`])
  const main = /<main[^]*<\/main>/.exec(await list.text())![0]
  const links = [...main.matchAll(/<li><a href="\/docs\/([\w/-]+)">([^<]+)<\/a>: \S/g)]
  expect(links.map(([, path]) => path!).toSorted()).toEqual(paths)
  for (const name of ['nothing', '..%2f..%2fpackage.json', '.built-from']) {
    const path = `/docs/guides/${name}`
    const refused = await get(path)
    expect([path, refused.status]).toEqual([path, 404])
    expect(refused.headers.get('content-type')).toContain('problem+json')
  }
})

test('a guide is served as a page whose policy allows only its own scripts, and as Markdown', async () => {
  for (const path of paths) {
    const page = await get(`/docs/${path}`)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('cache-control')).toBe('no-cache')
    const html = await page.text()
    expect(html.match(/<h1/g), path).toHaveLength(1)
    expect(html).not.toMatch(/<script[^>]* src="(?!\/docs\/guides\/assets\/)|\bon\w+="/)
    const policy = page.headers.get('content-security-policy')!
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'( 'sha256-[^']+'){2}; /)
    const inline = [...html.matchAll(/<script(?! type="module")[^>]*>([^<]+)<\/script>/g)]
    expect(inline).toHaveLength(2)
    for (const [, script] of inline) {
      expect(policy).toContain(createHash('sha256').update(script!).digest('base64'))
    }
    const text = await get(`/docs/${path}.md`)
    expect(text.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
    const written = await readFile(join(docs, `${path}.md`), 'utf8')
    // The README of an SDK leads to neighbours that the site does not have.
    const isElsewhere = (await lstat(join(docs, `${path}.md`))).isSymbolicLink()
    expect(await text.text()).toBe(
      isElsewhere ? written.replaceAll(/\[([^\]]+)\]\((?!https?:|[/#])[^)]*\)/g, '$1') : written,
    )
  }
})

test('every link of a guide, also in its Markdown, leads to an existing page and heading', async () => {
  const pages = new Map<string, string>()
  const load = async (path: string) => {
    const known = pages.get(path)
    if (known !== undefined) return known
    const answer = await get(path)
    expect(answer.status, path).toBe(200)
    const html = await answer.text()
    pages.set(path, html)
    return html
  }
  const elsewhere = ['/docs', '/downloads/', '/portal']
  let headings = 0
  for (const path of paths) {
    const html = await load(`/docs/${path}`)
    for (const [, href] of html.matchAll(/<a [^>]*href="([^"]+)"/g)) {
      const { origin, pathname, hash } = new URL(href!, `${gateway.url}/docs/${path}`)
      if (origin !== gateway.url || elsewhere.includes(pathname)) continue
      expect(pathname, path).not.toMatch(/\.md$/)
      const target = await load(pathname)
      if (hash === '') continue
      headings += 1
      expect(target, `${path}: ${href}`).toContain(`id="${hash.slice(1)}"`)
    }
    const markdown = (await load(`/docs/${path}.md`)).replaceAll(/^ *```[^]*?^ *```$/gm, '')
    for (const [, link] of markdown.matchAll(/\]\((?!\w+:)([^)#]+)/g)) {
      await load(new URL(link!, `${gateway.url}/docs/${path}.md`).pathname)
    }
  }
  expect(headings).toBeGreaterThan(100)
})

test('an asset has a hash in its name and is cached permanently; a new build is served without a restart', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'licensing-guides-'))
  await using serving = await startGateway({ guidesFolder: join(folder.path, 'dist') })
  const page = () => fetch(`${serving.url}/docs/guides/quickstart`)
  expect((await page()).status).toBe(404)
  // npm start does not wait for this build, but a request for a guide does.
  await mkdir(join(folder.path, '.build-1'))
  const early = page()
  await cp(guidesFolder, join(folder.path, '.build-1/dist'), { recursive: true })
  await rename(join(folder.path, '.build-1/dist'), join(folder.path, 'dist'))
  expect((await early).status).toBe(200)
  await rm(join(folder.path, '.build-1'), { recursive: true })
  const html = await (await page()).text()
  const [, script] = /<script type="module" src="([^"]+app[^"]+)"/.exec(html)!
  const asset = await fetch(`${serving.url}${script}`, { headers: { 'accept-encoding': 'br' } })
  expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(asset.headers.get('content-encoding')).toBe('br')
  const hashes = await fetch(`${serving.url}/hashmap.json`)
  expect(Object.keys((await hashes.json()) as object)).toContain('docs_guides_quickstart.md')
})

test('/llms.txt links to every guide and to the OpenAPI document, relative to itself', async () => {
  const answer = await get('/llms.txt')
  expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
  const links = [...(await answer.text()).matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!)
  expect(links.toSorted()).toEqual([...paths.map((path) => `docs/${path}.md`), 'openapi.json'].toSorted())
  for (const link of links) expect((await get(`/${link}`)).status, link).toBe(200)
})

test('if guides and packages are not built, the answer says so, and the API reference still works', async () => {
  await using bare = await startGateway()
  for (const [path, detail] of [
    ['/docs/guides', 'built without the guides'],
    ['/docs/guides/quickstart', 'built without the guides'],
    ['/llms.txt', 'built without the guides'],
    ['/downloads/', 'built without the packages'],
    ['/downloads/licensing-sdk.tgz', 'built without the packages'],
  ] as const) {
    const answer = await fetch(`${bare.url}${path}`)
    expect(answer.status).toBe(404)
    expect(((await answer.json()) as { detail: string }).detail).toContain(detail)
  }
  expect((await fetch(`${bare.url}/docs`)).status).toBe(200)
})

test('packages are listed, also in /llms.txt, and served unchanged, even if they were built after the start', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'licensing-downloads-'))
  await using serving = await startGateway({ downloadsFolder: folder.path, guidesFolder })
  expect((await fetch(`${serving.url}/downloads/`)).status).toBe(404)
  const forMachines = async () => (await fetch(`${serving.url}/llms.txt`)).text()
  expect(await forMachines()).not.toContain('downloads/')
  await writeFile(join(folder.path, 'licensing-sdk.tgz'), 'packed')
  await writeFile(join(folder.path, '.built-from'), 'x')
  const list = await (await fetch(`${serving.url}/downloads`)).text()
  expect(list).toContain('<a href="licensing-sdk.tgz">@licensing/sdk</a>')
  await writeFile(join(folder.path, 'versions.json'), JSON.stringify({ 'licensing-sdk.tgz': '1.2.3-<beta>' }))
  const newer = await (await fetch(`${serving.url}/downloads/`)).text()
  expect(newer).toContain('@licensing/sdk</a> 1.2.3-&lt;beta&gt; (licensing-sdk.tgz)')
  expect(list).toContain(`npm install ${serving.url}/downloads/licensing-sdk.tgz`)
  const file = await fetch(`${serving.url}/downloads/licensing-sdk.tgz`)
  expect([file.status, await file.text()]).toEqual([200, 'packed'])
  const [, ...listed] = (await forMachines()).split('\n## Downloads\n\n')
  expect(listed).toEqual([
    '- [licensing-sdk.tgz](downloads/licensing-sdk.tgz): @licensing/sdk, for installed products, webhook receivers and backends, in TypeScript\n',
  ])
  for (const name of ['.built-from', 'versions.json', 'none.tgz', '..%2fx']) {
    expect((await fetch(`${serving.url}/downloads/${name}`)).status).toBe(404)
  }
})
