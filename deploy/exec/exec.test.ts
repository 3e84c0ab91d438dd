import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const file = fileURLToPath(new URL('exec.mjs', import.meta.url))

test('in a shell without exec, this file runs the program and passes on arguments, output and exit code', async () => {
  const program = 'console.log(JSON.stringify(process.argv.slice(1))); process.exit(7)'
  const words = ['create-account', '--name', 'Second vendor']
  const child = spawn(process.execPath, [file, 'node', '-e', program, '--', ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  expect(JSON.parse(output)).toEqual(words)
  expect(code).toBe(7)
})

test('no script in package.json sets variables before a command, which the cmd of Windows does not support', async () => {
  const { scripts } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as {
    scripts: Record<string, string>
  }
  for (const script of Object.values(scripts)) expect(script).not.toMatch(/(^|&& )\w+=/)
})
