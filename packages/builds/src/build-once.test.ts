import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { hashOfSources } from './build-once.ts'

test('a build is stale if a source was changed, added, renamed or removed, but not if a test was', async () => {
  const root = await mkdtemp(join(tmpdir(), 'licensing-builds-'))
  onTestFinished(() => rm(root, { recursive: true }))
  const write = (file: string, text: string) => writeFile(join(root, 'portal', file), text)
  await mkdir(join(root, 'portal/src'), { recursive: true })
  await mkdir(join(root, 'portal/dist'))
  await writeFile(join(root, 'lock.yaml'), 'a: 1')
  await write('src/main.tsx', 'main')
  const hashes = new Set<string>()
  const hash = async () => hashOfSources(root, ['portal', 'lock.yaml'])
  const expectAnother = async () => {
    const now = await hash()
    expect(hashes).not.toContain(now)
    hashes.add(now)
    expect(await hash()).toBe(now)
  }
  await expectAnother()
  await write('src/main.tsx', 'other')
  await expectAnother()
  await write('src/page.tsx', 'page')
  await expectAnother()
  await rename(join(root, 'portal/src/page.tsx'), join(root, 'portal/src/pages.tsx'))
  await expectAnother()
  await writeFile(join(root, 'lock.yaml'), 'a: 2')
  await expectAnother()
  const before = await hash()
  for (const file of ['dist/index.html', 'src/page.test.ts', 'src/page.test.tsx']) await write(file, 'x')
  expect(await hash()).toBe(before)
  await rm(join(root, 'portal/src/pages.tsx'))
  await expectAnother()
})
