import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { checksumOf, hashOfKey } from '../../../services/catalog/src/api-keys/key-format.ts'
import { catalogOfFile, givenTenant, newAccountFee } from '../../../services/catalog/test/catalog.ts'
import { runAdmin } from './run-admin.ts'

const catalog = await catalogOfFile()
const { calls } = catalog
const environment = { GRPC_ADDRESS: catalog.address }

async function adminJson(
  args: string[],
  environment: Record<string, string>,
): Promise<Record<string, string>> {
  const { output, errors, code } = await runAdmin(args, environment)
  expect({ errors, code }).toEqual({ errors: '', code: 0 })
  expect(output).toMatch(/^\{.*\}\n$/)
  return JSON.parse(output) as Record<string, string>
}

/** The line of an account in `list`. */
async function listed(accountId: string): Promise<unknown> {
  const { output } = await runAdmin(['list'], environment)
  const accounts = output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { account_id: string })
  return accounts.find(({ account_id: id }) => id === accountId)
}

test('create-account creates an account, an application and a key with all scopes', async () => {
  const made = await adminJson(['create-account', '--name', 'Acme & Söhne'], environment)
  expect(Object.keys(made)).toEqual(['account_id', 'app_id', 'key'])
  expect(checksumOf(made.key!.slice(0, -6))).toBe(made.key!.slice(-6))
  expect(await listed(made.account_id!)).toMatchObject({
    account_id: made.account_id,
    name: 'Acme & Söhne',
    alert_email: null,
    fee_bps: newAccountFee.bps,
    fee_fixed_minor: Number(newAccountFee.fixedMinor),
    apps: [{ app_id: made.app_id, name: 'Acme & Söhne' }],
    keys: [
      { scopes: ['admin', 'read', 'revoke', 'issue'], last_four: made.key!.slice(-4), revoked_at: null },
    ],
  })
})

test('control characters in names of vendors are printed as JSON escapes', async () => {
  const { account_id: accountId } = await adminJson(['create-account', '--name', 'A'], environment)
  const name = 'A\u001b[2J\u009b31m\u202e\u2028\u007f'
  await calls.updateAccount({ accountId: accountId!, name })
  const { output } = await runAdmin(['list'], environment)
  expect(output.split('\n').find((line) => line.includes(accountId!))).toMatch(/^[\x20-\x7e]+$/)
  expect(await listed(accountId!)).toMatchObject({ name })
  const refused = await runAdmin(['create-account', '--nam\u001b[2J\u202ee', 'A'], environment)
  expect(refused.errors).toContain('nam\\u001b[2J\\u202ee')
  expect(refused.errors.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u)
})

test('a new account has the fee of the running service, or the fee in the environment of the command', async () => {
  const feeOf = async (accountId: string) => {
    const { feeBps, feeFixedMinor } = await calls.getAccount({ accountId })
    return [feeBps, feeFixedMinor]
  }
  const first = await adminJson(['create-account', '--name', 'A'], environment)
  expect(await feeOf(first.account_id!)).toEqual([250, 30n])
  const second = await adminJson(['create-account', '--name', 'B'], { ...environment, FEE_BPS: '0' })
  expect(await feeOf(second.account_id!)).toEqual([0, 30n])
  const change = ['set-fee', '--account', first.account_id!, '--bps', '90', '--fixed-minor', '5']
  await adminJson(change, environment)
  expect(await feeOf(first.account_id!)).toEqual([90, 5n])
  await adminJson(['set-fee', '--account', first.account_id!, '--fixed-minor', '7'], environment)
  expect(await feeOf(first.account_id!)).toEqual([90, 7n])
})

test('a key created by the command is valid at once and refused after it is revoked; revoking again succeeds', async () => {
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
    [
      ['create-key', '--account', 'acct_01kahz5k00e000000000000001', '--name', 'x', '--scopes', 'read'],
      1,
      'there is no account',
    ],
    [['create-key', '--account', 'x', '--name', 'x', '--scopes', 'root'], 1, 'scopes/0 must be one of'],
    [['dead-letters'], 2, 'missing: action'],
    [['dead-letters', 'show'], 2, 'unknown action of dead-letters: show'],
    [
      ['dead-letters', 'list', '--service', 'billing'],
      2,
      '--service must be catalog or licensing or notifier',
    ],
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

test('a missing address of the catalog, or one at which nothing listens, is reported with a message', async () => {
  expect(await runAdmin(['list'], {})).toMatchObject({
    code: 2,
    errors: expect.stringContaining('GRPC_ADDRESS'),
  })
  const nowhere = await runAdmin(['list'], { GRPC_ADDRESS: '127.0.0.1:1' })
  expect(nowhere).toMatchObject({ code: 1, output: '' })
  expect(nowhere.errors).toMatch(/^licensing-admin: .+\n$/)
})

test.each([
  [[], 2, 'give at least one of --applications, --api-keys, --plans, --entitlement-defs'],
  [['--plans', 'x'], 2, '--plans must be a whole number from 0 to 100000, not x'],
  [['--plans', '-1'], 2, "Option '--plans' argument is ambiguous"],
  [['--entitlement-defs', '2001'], 2, '--entitlement-defs must be a whole number from 0 to 2000'],
  [['--plans', '5'], 1, 'there is no account acct_x'],
  [['--activations', '5', '--plans', '5'], 2, 'set LICENSING_ADDRESS'],
])('set-quota with %j ends with %d, says what is wrong and changes nothing', async (args, code, message) => {
  const { accountId } = await givenTenant(catalog)
  const account = code === 1 ? 'acct_x' : accountId
  const outcome = await runAdmin(['set-quota', '--account', account, ...args], environment)
  expect(outcome).toMatchObject({ code, output: '' })
  expect(outcome.errors).toContain(message)
  expect(await catalog.sql`select 1 from account_quotas where account_id = ${accountId}`).toHaveLength(0)
})

test('after set-quota the command creates no key over the quota', async () => {
  const { accountId } = await givenTenant(catalog)
  await adminJson(['set-quota', '--account', accountId, '--api-keys', '0'], environment)
  const made = await runAdmin(
    ['create-key', '--account', accountId, '--name', 'x', '--scopes', 'read'],
    environment,
  )
  expect(made).toMatchObject({ code: 1, output: '' })
  expect(made.errors).toContain('this account may have 0 API keys in force')
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
  const withLicensing = { ...environment, LICENSING_ADDRESS: catalog.licensing.address }
  const outcome = (...args: string[]) => runAdmin(['rotate-root-key', ...args], withLicensing)
  expect(await outcome()).toMatchObject({ code: 2 })
  const unknown = 'app_01kahz5k00e000000000000001'
  for (const app of [unknown, 'nonsense']) {
    expect(await outcome('--app', app)).toMatchObject({
      code: 1,
      errors: `licensing-admin: there is no application ${app}\n`,
    })
  }
  expect(await outcome('--app', unknown, '--force')).toMatchObject({ code: 2 })
})

test('the command writes results to standard output, errors to standard error, and sets its exit code', async () => {
  const run = async (...args: string[]) => {
    const command = spawn(join(import.meta.dirname, 'licensing-admin.ts'), args, {
      env: { PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [output, errors] = await Promise.all([
      text(command.stdout),
      text(command.stderr),
      once(command, 'close'),
    ])
    return { output, errors, code: command.exitCode }
  }
  expect(await run('--help')).toMatchObject({
    code: 0,
    errors: '',
    output: expect.stringContaining('set-fee'),
  })
  expect(await run('lst')).toMatchObject({
    code: 2,
    errors: expect.stringContaining('unknown command lst'),
    output: '',
  })
})
