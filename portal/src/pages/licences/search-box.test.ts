import { writtenKeys } from '@licensing/formats/testing/written-keys'
import { expect, test } from 'vitest'
import { looksLikeLicenceKey } from './search-box.tsx'

const key = '0A1BC-DEFGH-JKMNP-QRSTV-WXYZ9'

test.each(Object.entries(writtenKeys(key)))('a licence key is kept out of the address: %s', (_, text) => {
  expect(looksLikeLicenceKey(text)).toBe(true)
})

test('a key that is half typed, or has a typing error, is kept out of the address', () => {
  for (const text of ['0A1BC-DEFGH-', 'oaibc-defgh-jk', '0A1BC\u2013DEFGH\u2013JKMNP', `U${key.slice(1)}`]) {
    expect(looksLikeLicenceKey(text), text).toBe(true)
  }
})

test('other texts that are searched are in the address', () => {
  for (const text of ['0A1BC-DE', 'customer-4711', 'green field', 'lic_01kahz5k00e000000000000002']) {
    expect(looksLikeLicenceKey(text), text).toBe(false)
  }
})
