import { isFull } from '@licensing/test-support/drawn'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { folderOf, languages, located, prepare } from './languages.ts'

describe.each(languages)('the tests of $name', (language) => {
  const command = isFull ? (language.fullTest ?? language.test) : language.test
  test.skipIf(!command)('pass', async () => {
    await prepare(language)
    const tests = spawn('sh', ['-c', located(language, command!)], { cwd: folderOf(language) })
    tests.stdin.end()
    const ended = once(tests, 'exit')
    const output = await Promise.all([text(tests.stdout), text(tests.stderr)])
    const [code] = (await ended) as [number | null]
    expect(code, output.join('').slice(-8_000)).toBe(0)
  })
})
