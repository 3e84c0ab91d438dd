import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { freePort, isPortFree } from './ports.ts'

test('freePort returns a port only once across all processes, even while nothing listens on it', async () => {
  const port = await freePort()
  const range: [number, number] = [port, port + 1]
  await expect(freePort(range)).rejects.toThrow('no free port')
  const program = `
    import { freePort } from ${JSON.stringify(new URL('ports.ts', import.meta.url).href)}
    await freePort(${JSON.stringify(range)})`
  const other = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
  await expect(other).rejects.toThrow('no free port')
  expect(await isPortFree(port)).toBe(true)
})
