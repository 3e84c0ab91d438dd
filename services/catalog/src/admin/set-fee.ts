import { updateFee } from '../accounts/account-queries.ts'
import type { Command } from './command.ts'
import { Refusal, UsageError, wholeNumberOf } from './command.ts'

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
