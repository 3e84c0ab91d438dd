import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { natsFiles } from './nats-files.ts'

test.each(natsFiles())('$file.pathname has the accounts that the table of rights makes', ({ file, text }) => {
  expect(readFileSync(file, 'utf8')).toBe(text)
})
