import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { closedSets } from '@licensing/proto/closed-sets'
import { insertAccount, findNewAccountFees } from '../accounts/account-queries.ts'
import { emailAddress } from '../accounts/email-address.ts'
import { mintKey } from '../api-keys/create-api-key.ts'
import { insertApplication } from '../applications/application-queries.ts'
import { feeConfig } from '../config.ts'
import { Violations } from '../refusals.ts'
import type { Command } from './command.ts'

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
      return (await mintKey(tx, { accountId, name: 'licensing-admin', scopes: closedSets.scope })).key
    })
    return [JSON.stringify({ account_id: accountId, app_id: applicationId, key })]
  },
}
