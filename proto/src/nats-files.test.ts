import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { natsFiles } from './nats-files.ts'

test.each(natsFiles())(
  '$file.pathname has the accounts that are generated from the table of rights',
  ({ file, text }) => {
    expect(readFileSync(file, 'utf8')).toBe(text)
  },
)
