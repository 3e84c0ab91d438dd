import { mkdtempDisposable, readdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startGateway } from '../testing/gateway.ts'
import type { TestGateway } from '../testing/gateway.ts'
import { guideNames } from './guides.ts'

const guidesFolder = fileURLToPath(new URL('../../../docs/guides', import.meta.url))
let gateway: TestGateway
beforeAll(async () => {
  gateway = await startGateway({ guidesFolder })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const get = (path: string) => fetch(`${gateway.url}${path}`)

test('every guide of the repository is served, listed in its order, and no other', async () => {
  expect((await readdir(guidesFolder)).toSorted()).toEqual(guideNames.map((name) => `${name}.md`).toSorted())
  const list = await get('/docs/guides')
  expect(list.status).toBe(200)
  const links = [...(await list.text()).matchAll(/<li><a href="\/docs\/guides\/(\w+)">([^<]+)<\/a>: \S/g)]
  expect(links.map(([, name]) => name)).toEqual([...guideNames])
  expect((await get('/docs/guides/nothing')).status).toBe(404)
  expect((await get('/docs/guides/..%2f..%2fpackage.json')).status).toBe(404)
})

test('a guide is a page under a policy that runs nothing, and the Markdown that it is written in', async () => {
  for (const name of guideNames) {
    const page = await get(`/docs/guides/${name}`)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; /,
    )
    const html = await page.text()
    expect(html.match(/<h1/g), name).toHaveLength(1)
    expect(html).not.toMatch(/<script|style="|\bon\w+="/)
    const text = await get(`/docs/guides/${name}.md`)
    expect(text.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
    expect(await text.text()).toMatch(/^# \S/)
  }
})

test('every link between guides leads to a page, and to a heading that is there', async () => {
  for (const name of guideNames) {
    const html = await (await get(`/docs/guides/${name}`)).text()
    for (const [, href] of html.matchAll(/<a href="([^"]+)"/g)) {
      expect(href, name).not.toMatch(/\.md\b/)
      if (!href!.startsWith('/docs/guides/')) continue
      const [path, heading] = href!.split('#')
      const target = await get(path!)
      expect(target.status, `${name}: ${href}`).toBe(200)
      if (heading !== undefined) expect(await target.text()).toContain(`id="${heading}"`)
    }
  }
})

test('/llms.txt links to every guide and to the OpenAPI document, relative to itself', async () => {
  const text = await (await get('/llms.txt')).text()
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!)
  expect(links).toEqual(
    expect.arrayContaining([...guideNames.map((name) => `docs/guides/${name}.md`), 'openapi.json']),
  )
  for (const link of links) {
    expect(link).not.toMatch(/^\/|^\w+:/)
    if (link !== 'downloads/') expect((await get(`/${link}`)).status, link).toBe(200)
  }
})

test('what was not built in is said plainly, and the API reference is there all the same', async () => {
  await using bare = await startGateway()
  for (const [path, detail] of [
    ['/docs/guides', 'built without the guides'],
    ['/docs/guides/quickstart', 'built without the guides'],
    ['/downloads/', 'built without the packages'],
    ['/downloads/licensing-sdk.tgz', 'built without the packages'],
  ] as const) {
    const answer = await fetch(`${bare.url}${path}`)
    expect(answer.status).toBe(404)
    expect(((await answer.json()) as { detail: string }).detail).toContain(detail)
  }
  expect((await fetch(`${bare.url}/docs`)).status).toBe(200)
})

test('packages are listed and given as they are, also those that were built after the start', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'licensing-downloads-'))
  await using serving = await startGateway({ downloadsFolder: folder.path })
  expect((await fetch(`${serving.url}/downloads/`)).status).toBe(404)
  await writeFile(join(folder.path, 'licensing-sdk.tgz'), 'packed')
  await writeFile(join(folder.path, '.built-from'), 'x')
  const list = await (await fetch(`${serving.url}/downloads`)).text()
  expect(list).toContain('<a href="licensing-sdk.tgz">')
  expect(list).toContain(`npm install ${serving.url}/downloads/licensing-sdk.tgz`)
  const file = await fetch(`${serving.url}/downloads/licensing-sdk.tgz`)
  expect([file.status, await file.text()]).toEqual([200, 'packed'])
  for (const name of ['.built-from', 'none.tgz', '..%2fx']) {
    expect((await fetch(`${serving.url}/downloads/${name}`)).status).toBe(404)
  }
})
