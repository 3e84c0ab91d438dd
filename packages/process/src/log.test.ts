import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'

test('a line carries the request id and account of its request, and no secret', () => {
  const script = `
    import { createLogger } from './log.ts'
    import { withRequestContext } from './context.ts'
    const log = createLogger('catalog')
    withRequestContext({ requestId: 'req-1', accountId: 'acct_1' }, () => {
      log.info({ secret: 'whsec_x', endpoint: { secret: 'whsec_y' }, headers: { authorization: 'Bearer lsk_z' } }, 'hello')
    })`
  const output = execFileSync(process.execPath, ['--input-type=module-typescript', '--eval', script], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  })
  expect(JSON.parse(output)).toMatchObject({
    level: 'info',
    service: 'catalog',
    request_id: 'req-1',
    account_id: 'acct_1',
    msg: 'hello',
    secret: '[redacted]',
  })
  expect(output).not.toMatch(/whsec_|lsk_/)
})
