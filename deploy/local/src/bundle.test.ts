import { stat } from 'node:fs/promises'
import { mainOf } from '@licensing/local-servers/services'
import { expect, test } from 'vitest'
import { bundlePrograms } from './bundle.ts'

test('programs are bundled once, until a source changes', async () => {
  const said: string[] = []
  const first = await bundlePrograms((line) => said.push(line))
  const before = said.length
  const second = await bundlePrograms((line) => said.push(line))
  expect(said.slice(before)).toEqual([])
  for (const service of ['catalog', 'licensing', 'billing', 'notifier', 'gateway'] as const) {
    const bundled = second(mainOf(service))
    expect(bundled).toBe(first(mainOf(service)))
    expect(bundled).not.toBe(mainOf(service))
    expect((await stat(bundled)).size).toBeGreaterThan(1_000)
  }
})
