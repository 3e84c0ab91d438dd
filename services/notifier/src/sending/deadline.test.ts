import { oldBytesOf } from '@licensing/test-support/old-generation'
import { expect, test } from 'vitest'

test('what it would have ended is garbage as soon as it is cleared', async () => {
  const given = `
    import { Deadline } from './deadline.ts'
    const operation = () => {
      const held = new Array(50).fill(0)
      const deadline = new Deadline(60_000)
      deadline.ends(() => held)
      deadline.clear()
    }`
  expect(await oldBytesOf({ given, from: import.meta.dirname, times: 200_000 })).toBeLessThan(50)
})
