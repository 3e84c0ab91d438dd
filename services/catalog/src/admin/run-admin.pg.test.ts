import { newId } from '@licensing/database/ids'
import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { bootstrap } from '../bootstrap.ts'
import { checksumOf, hashOfKey } from '../api-keys/key-format.ts'
import { catalogOfFile } from '../../test/catalog.ts'
import { runAdmin } from './run-admin.ts'

const catalog = await catalogOfFile()
const { calls } = catalog

async function adminJson(
  args: string[],
  environment: Record<string, string>,
): Promise<Record<string, string>> {
  const { output, errors, code } = await runAdmin(args, environment)
  expect({ errors, code }).toEqual({ errors: '', code: 0 })
  expect(output).toMatch(/^\{.*\}\n$/)
  return JSON.parse(output) as Record<string, string>
}

test('create-account creates an account, an application and a key with all scopes, even on an empty database', async () => {
  await using database = await createTestDatabase()
  const environment = { DATABASE_URL: database.url }
  const made = await adminJson(['create-account', '--name', 'Acme & Söhne'], environment)
  expect(Object.keys(made)).toEqual(['account_id', 'app_id', 'key'])
  expect(checksumOf(made.key!.slice(0, -6))).toBe(made.key!.slice(-6))
  expect(await adminJson(['list'], environment)).toMatchObject({
    account_id: made.account_id,
    name: 'Acme & Söhne',
    alert_email: null,
    fee_bps: 100,
    fee_fixed_minor: 0,
    apps: [{ app_id: made.app_id, name: 'Acme & Söhne' }],
    keys: [
      { scopes: ['admin', 'read', 'revoke', 'issue'], last_four: made.key!.slice(-4), revoked_at: null },
    ],
  })
})

test('control characters in names of vendors are printed as JSON escapes', async () => {
  const environment = { DATABASE_URL: catalog.databaseUrl }
  const { account_id: accountId } = await adminJson(['create-account', '--name', 'A'], environment)
  const name = 'A\u001b[2J\u009b31m\u202e\u2028\u007f'
  await calls.updateAccount({ accountId: accountId!, name })
  const { output } = await runAdmin(['list'], environment)
  expect(output).toMatch(/^[\x20-\x7e]+\n$/)
  expect(JSON.parse(output)).toMatchObject({ name })
  const refused = await runAdmin(['create-account', '--nam\u001b[2J\u202ee', 'A'], environment)
  expect(refused.errors).toContain('nam\\u001b[2J\\u202ee')
  expect(refused.errors.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u)
})

test('a new account has the fee of the running service, or the fee in the environment of the command', async () => {
  const { sql, databaseUrl: DATABASE_URL } = catalog
  const settings = { ALERT_EMAIL: 'ops@localhost', FEE_BPS: 250, FEE_FIXED_MINOR: 30 }
  await bootstrap(sql, { ...settings, BOOTSTRAP_API_KEY: undefined })
  const feeOf = async (accountId: string) => {
    const { feeBps, feeFixedMinor } = await calls.getAccount({ accountId })
    return [feeBps, feeFixedMinor]
  }
  const first = await adminJson(['create-account', '--name', 'A'], { DATABASE_URL })
  expect(await feeOf(first.account_id!)).toEqual([250, 30n])
  const second = await adminJson(['create-account', '--name', 'B'], { DATABASE_URL, FEE_BPS: '0' })
  expect(await feeOf(second.account_id!)).toEqual([0, 30n])
  const change = ['set-fee', '--account', first.account_id!, '--bps', '90', '--fixed-minor', '5']
  await adminJson(change, { DATABASE_URL })
  expect(await feeOf(first.account_id!)).toEqual([90, 5n])
  await adminJson(['set-fee', '--account', first.account_id!, '--fixed-minor', '7'], { DATABASE_URL })
  expect(await feeOf(first.account_id!)).toEqual([90, 7n])
})

test('a key created by the command is valid at once and refused after it is revoked; revoking again succeeds', async () => {
  const environment = { DATABASE_URL: catalog.databaseUrl }
  const account = await adminJson(['create-account', '--name', 'A'], environment)
  const wanted = ['create-key', '--account', account.account_id!, '--name', 'CI', '--scopes', 'read, issue']
  const made = await adminJson([...wanted, '--app', account.app_id!], environment)
  const keyHash = hashOfKey(made.key!)
  expect(await calls.authenticateKey({ keyHash })).toMatchObject({
    accountId: account.account_id,
    scopes: ['read', 'issue'],
    applicationId: account.app_id,
  })
  await adminJson(['revoke', made.key_id!], environment)
  await adminJson(['revoke', made.key_id!], environment)
  await expect(calls.authenticateKey({ keyHash })).rejects.toMatchObject({ code: 'unauthenticated' })
})

test('wrong usage has exit code 2 and a refusal exit code 1, both with a message', async () => {
  await using database = await createTestDatabase()
  const environment = { DATABASE_URL: database.url }
  const refusals: [string[], number, string][] = [
    [['create-acount'], 2, 'unknown command create-acount'],
    [['create-account'], 2, 'missing: --name'],
    [['create-account', '--nam', 'x'], 2, "Unknown option '--nam'"],
    [['list', 'x'], 2, 'unexpected argument x'],
    [['revoke'], 2, 'missing: KEY_ID'],
    [['set-fee', '--account', 'acct_1'], 2, 'use --bps, --fixed-minor or both'],
    [['set-fee', '--account', 'acct_1', '--bps', '1.5'], 2, '--bps must be a whole number'],
    [['set-fee', '--account', 'acct_1', '--bps', '1'], 1, 'there is no account acct_1'],
    [['create-account', '--name', ''], 1, 'name must have 1 to 200 characters'],
    [['create-account', '--name', 'x', '--alert-email', 'x'], 1, 'alert-email must be an e-mail address'],
    [['create-key', '--account', newId('acct'), '--name', 'x', '--scopes', 'read'], 1, 'there is no account'],
    [['create-key', '--account', 'x', '--name', 'x', '--scopes', 'root'], 1, 'scopes/0 must be one of'],
    [['dead-letters'], 2, 'missing: action'],
    [['dead-letters', 'show'], 2, 'unknown action of dead-letters: show'],
    [['dead-letters', 'list', '--service', 'billing'], 2, '--service must be licensing or notifier'],
    [['dead-letters', 'discard'], 2, 'discard needs --service and --id'],
    [['dead-letters', 'discard', '--service', 'notifier', '--id', 'x'], 2, '--id must be a number from list'],
    [['dead-letters', 'list'], 2, 'set LICENSING_ADDRESS to the address of the licensing service'],
    [['processor-events'], 2, 'missing: action'],
    [['processor-events', 'show'], 2, 'unknown action of processor-events: show'],
    [['resend-effects'], 2, 'missing: --since'],
    [['resend-effects', '--since', 'yesterday'], 2, '--since must be a time such as'],
    [['processor-events', 'list'], 2, 'set BILLING_ADDRESS to the address of the billing service'],
    [['processor-webhook', '--creat'], 2, "Unknown option '--creat'"],
    [['revoke', 'key_1'], 1, 'there is no API key key_1'],
  ]
  for (const [args, expected, message] of refusals) {
    const { output, errors, code } = await runAdmin(args, environment)
    expect({ args, code, output }).toEqual({ args, code: expected, output: '' })
    expect(errors).toContain(`licensing-admin: ${message}`)
    expect(errors).not.toContain('    at ')
  }
})

test('a missing DATABASE_URL or an unreachable database is reported with a message', async () => {
  expect(await runAdmin(['list'], {})).toMatchObject({
    code: 2,
    errors: expect.stringContaining('DATABASE_URL'),
  })
  const nowhere = await runAdmin(['list'], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' })
  expect(nowhere).toMatchObject({
    code: 1,
    errors: expect.stringContaining('the database cannot be reached'),
  })
})

test('help names every command', async () => {
  for (const args of [[], ['--help'], ['revoke', '--help']]) {
    const { output, code } = await runAdmin(args, {})
    expect(code).toBe(0)
    const names = [
      'create-account',
      'create-key',
      'list',
      'dead-letters',
      'processor-events',
      'resend-effects',
      'revoke',
      'set-fee',
    ]
    for (const name of [...names, 'processor-webhook']) expect(output).toContain(name)
  }
})

test('rotate-root-key needs an existing application, and --force only with --retire', async () => {
  const environment = { DATABASE_URL: catalog.databaseUrl, LICENSING_ADDRESS: catalog.licensing.address }
  const outcome = (...args: string[]) => runAdmin(['rotate-root-key', ...args], environment)
  expect(await outcome()).toMatchObject({ code: 2 })
  const unknown = newId('app')
  for (const app of [unknown, 'nonsense']) {
    expect(await outcome('--app', app)).toMatchObject({
      code: 1,
      errors: `licensing-admin: there is no application ${app}\n`,
    })
  }
  expect(await outcome('--app', unknown, '--force')).toMatchObject({ code: 2 })
})
