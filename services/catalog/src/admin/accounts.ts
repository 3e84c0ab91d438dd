import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { closedSets } from '@licensing/proto/closed-sets'
import { pageOf } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import { insertAccount, findNewAccountFees, updateFee, listAllAccounts } from '../accounts/account-queries.ts'
import { emailAddress } from '../accounts/accounts.ts'
import { generateKey, revokeKey } from '../api-keys/api-keys.ts'
import { insertApplication, listApplicationRows } from '../applications/application-queries.ts'
import { feeConfig } from '../config.ts'
import { Violations } from '../refusals.ts'
import { Refusal, UsageError, wholeNumberOf } from './command.ts'
import type { Command } from './command.ts'
import { listKeyRows } from '../api-keys/api-key-queries.ts'

export const createAccount: Command = {
  synopsis: '--name NAME [--alert-email ADDRESS]',
  summary: 'creates an account with an application and an API key with all scopes; prints the key once',
  options: { name: { required: true }, 'alert-email': { required: false } },
  async run({ sql, fee }, given) {
    const violations = new Violations()
    const name = given.name!
    const alertEmail = given['alert-email'] ?? null
    violations.checkName('/name', name)
    if (alertEmail !== null && !emailAddress.test(alertEmail)) {
      violations.add('/alert-email', 'must be an e-mail address')
    }
    violations.throwIfAny()
    const accountId = newId('acct')
    const applicationId = newId('app')
    const key = await transaction(sql, async (tx) => {
      const usual = await findNewAccountFees(tx)
      const bps = fee.bps ?? usual?.bps ?? feeConfig.FEE_BPS.parse(undefined)
      const fixedMinor =
        fee.fixedMinor ?? usual?.fixedMinor ?? BigInt(feeConfig.FEE_FIXED_MINOR.parse(undefined))
      await insertAccount(tx, { id: accountId, name, alertEmail, fee: { bps, fixedMinor }, demo: false })
      await insertApplication(tx, { id: applicationId, accountId, name })
      return (await generateKey(tx, { accountId, name: 'licensing-admin', scopes: closedSets.scope })).key
    })
    return [JSON.stringify({ account_id: accountId, app_id: applicationId, key })]
  },
}

export const setFee: Command = {
  synopsis: '--account ACCOUNT_ID [--bps BASIS_POINTS] [--fixed-minor MINOR_UNITS]',
  summary: 'sets the transaction fee of an account for future charges',
  options: { account: { required: true }, bps: { required: false }, 'fixed-minor': { required: false } },
  async run({ sql }, { account, bps, 'fixed-minor': fixedMinor }) {
    if (bps === undefined && fixedMinor === undefined)
      throw new UsageError('use --bps, --fixed-minor or both')
    const fee = await updateFee(sql, account!, {
      ...(bps !== undefined && { bps: wholeNumberOf('bps', bps, 10_000) }),
      ...(fixedMinor !== undefined && {
        fixedMinor: BigInt(wholeNumberOf('fixed-minor', fixedMinor, Number.MAX_SAFE_INTEGER)),
      }),
    })
    if (!fee) throw new Refusal(`there is no account ${account}`)
    return [
      JSON.stringify({ account_id: account, fee_bps: fee.bps, fee_fixed_minor: Number(fee.fixedMinor) }),
    ]
  },
}

export const list: Command = {
  synopsis: '',
  summary: 'lists accounts with their applications and keys, one JSON line per account',
  options: {},
  async run({ sql }) {
    const lines: string[] = []
    for (const account of await listAllAccounts(sql)) {
      const apps = await allOf((page) => listApplicationRows(sql, account.id, page, undefined))
      const keys = await allOf((page) => listKeyRows(sql, account.id, page))
      lines.push(
        JSON.stringify({
          account_id: account.id,
          name: account.name,
          alert_email: account.alert_email,
          fee_bps: account.fee_bps,
          fee_fixed_minor: Number(account.fee_fixed_minor),
          apps: apps.map(({ id, name }) => ({ app_id: id, name })),
          keys: keys.map((key) => ({
            key_id: key.id,
            name: key.name,
            scopes: key.scopes,
            app_id: key.application_id,
            last_four: key.last_four,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
          })),
        }),
      )
    }
    return lines
  },
}

async function allOf<Row extends { id: string }>(
  read: (page: PageRequest) => Promise<Row[]>,
): Promise<Row[]> {
  const all: Row[] = []
  for (;;) {
    const request = { limit: 200, beforeId: all.at(-1)?.id ?? '' }
    const { page, hasMore } = pageOf(await read(request), request.limit)
    all.push(...page)
    if (!hasMore) return all
  }
}

export const createKey: Command = {
  synopsis: `--account ACCOUNT_ID --name NAME --scopes ${closedSets.scope.join(',')} [--app APP_ID]`,
  summary: 'creates an API key, with --app for one application only; prints the key once',
  options: {
    account: { required: true },
    name: { required: true },
    scopes: { required: true },
    app: { required: false },
  },
  async run({ sql }, given) {
    const { row, key } = await transaction(sql, (tx) =>
      generateKey(tx, {
        accountId: given.account!,
        name: given.name!,
        scopes: given.scopes!.split(',').map((scope) => scope.trim()),
        applicationId: given.app,
      }),
    )
    return [JSON.stringify({ key_id: row.id, key })]
  },
}

export const revoke: Command = {
  synopsis: 'KEY_ID',
  summary: 'revokes an API key; it is refused within 2 seconds',
  options: {},
  positionals: ['KEY_ID'],
  async run({ sql }, given) {
    const keyId = given.KEY_ID!
    if (!(await revokeKey(sql, 'any account', keyId))) throw new Refusal(`there is no API key ${keyId}`)
    return [JSON.stringify({ key_id: keyId, revoked: true })]
  },
}
