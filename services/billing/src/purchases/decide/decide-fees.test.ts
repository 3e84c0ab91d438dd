import { expect, test } from 'vitest'
import { feeRefundCause } from '../../fees/fee.ts'
import { missingChanges } from './decide-fees.ts'
import type { FeeChange } from './decide-fees.ts'

const credit = (cause: string): FeeChange => ({ kind: 'credit', cause, at: 0 })
const reversal = (cause: string): FeeChange => ({ kind: 'reversal', cause, at: 0 })
const feeRefunded = credit(feeRefundCause('fee_1'))
const failed = [credit('re_1'), reversal('re_1')]

test.each<[string, FeeChange[], FeeChange[], FeeChange[]]>([
  ['is not reversed', failed, [...failed, feeRefunded], []],
  ['replaces the credit of a second refund', [...failed, credit('re_2')], [...failed, feeRefunded], []],
  [
    'is followed by the reversal of a second refund that fails',
    [...failed, credit('re_2'), reversal('re_2')],
    [...failed, feeRefunded],
    [reversal('re_2')],
  ],
  [
    'is followed by the credit of a third refund',
    [...failed, credit('re_2'), reversal('re_2'), credit('re_3')],
    [...failed, feeRefunded, reversal('re_2')],
    [credit('re_2')],
  ],
])('a credit for a fee that was refunded after its reversal %s', (_, wanted, posted, missing) => {
  expect(missingChanges(wanted, posted, 0)).toEqual(missing)
})
