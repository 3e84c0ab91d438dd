import { CHECKOUT } from '@licensing/local-servers/services'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const matches = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name = '']) => name)

test.each(['catalog', 'licensing', 'billing', 'notifier'])(
  'the README beside the migrations of %s names each table and each trigger',
  (service) => {
    const folder = join(CHECKOUT, 'services', service, 'migrations')
    const sql = globSync('*.sql', { cwd: folder })
      .map((file) => readFileSync(join(folder, file), 'utf8'))
      .join('\n')
    const [tables = '', triggers = ''] = readFileSync(join(folder, 'README.md'), 'utf8').split('\n| trigger')
    const rows = /^\| `(\w+)`/gm
    expect(matches(tables, rows).toSorted()).toEqual(matches(sql, /^create table (\w+)/gm).toSorted())
    expect(matches(triggers, rows).toSorted()).toEqual(matches(sql, /^create trigger (\w+)/gm).toSorted())
  },
)
