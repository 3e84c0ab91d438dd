import { CHECKOUT } from '@licensing/local-servers/services'
import { errorCatalogue } from '@licensing/proto/errors'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

test('a service, a package or the gateway raises each code of the catalogue', () => {
  const sources = globSync(['services/*/src/**/*.ts', 'packages/*/src/**/*.ts', 'gateway/src/**/*.ts'], {
    cwd: CHECKOUT,
  })
    .filter((file) => !/\.test\.ts$|\/testing\/|\/openapi\//.test(file))
    // A route only names the codes that it can answer with.
    .map((file) => readFileSync(join(CHECKOUT, file), 'utf8').replaceAll(/\berrors: \[[^\]]*\]/g, ''))
  const raised = new Set(sources.flatMap((text) => text.match(/(?<=')[a-z_]+(?=')/g) ?? []))
  expect(Object.keys(errorCatalogue).filter((code) => !raised.has(code))).toEqual([])
})
