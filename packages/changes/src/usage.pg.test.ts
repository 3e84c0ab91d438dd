import { setQuota } from '@licensing/quotas/quota-queries'
import { expect, test } from 'vitest'
import { deleteOldRecords, findKeys } from './record-queries.ts'
import { givenRepeatable } from './testing/given-repeatable.ts'

const half = 512 * 1024
const refused = { code: 'quota_exceeded', members: { limit: 8 * half } }

/** An account whose quota is eight answers of half a megabyte, after twenty calls. */
async function givenFull() {
  const given = await givenRepeatable({ replicas: 2 })
  await setQuota(given.sql, 'acct_1', 'idempotency_bytes', 8 * half)
  given.steps.answerLength = half
  for (let call = 0; call < 20; call += 1) {
    const outcome = given.call({ key: `key ${call}` })
    if (call < 8) await outcome
    else await expect(outcome).rejects.toMatchObject(refused)
  }
  return given
}

test('when the recorded answers have reached the quota of the account, only calls with a new key are refused, and do nothing', async () => {
  await using given = await givenFull()
  expect(await given.made()).toBe(8)
  const [kept] = await given.sql<{ bytes: number }[]>`
    select sum(length(answer))::int as bytes from idempotency_keys`
  expect(kept!.bytes).toBeLessThan(9 * half)
  for (let call = 0; call < 8; call += 1) {
    expect(await given.call({ key: `key ${call}` })).toMatchObject({ id: String(call + 1), replayed: true })
  }
  const another = given.call({ key: 'key 3', body: 'another' })
  await expect(another).rejects.toMatchObject({ code: 'idempotency_mismatch' })
  await given.call()
  expect(await given.made()).toBe(9)
  // Another account is not affected, and a raised quota applies at once.
  expect(await given.call({ key: 'key 9', accountId: 'acct_2' })).toMatchObject({ replayed: false })
  await setQuota(given.sql, 'acct_1', 'idempotency_bytes', 9 * half)
  expect(await given.call({ key: 'key 9' })).toMatchObject({ replayed: false })
  await expect(given.call({ key: 'key 10' })).rejects.toMatchObject({ code: 'quota_exceeded' })
})

test('answers count until their records are deleted, and their counts are deleted too', async () => {
  await using given = await givenFull()
  await given.sql`update idempotency_usage set hour = hour - interval '24 hours'`
  await expect(given.call({ key: 'key 9' })).rejects.toMatchObject(refused)
  await given.sql`update idempotency_usage set hour = hour - interval '1 hour'`
  await given.sql`update idempotency_keys set created_at = created_at - interval '25 hours'`
  await deleteOldRecords(given.sql, 1_000)
  expect(await given.sql`select hour from idempotency_usage`).toHaveLength(0)
  expect(await given.call({ key: 'key 9' })).toMatchObject({ replayed: false })
  const key = { accountId: 'acct_1', path: '', key: '', bodyHash: new Uint8Array(), replayed: false }
  const [found] = await findKeys(given.sql, [key])
  expect(Number(found!.used)).toBeGreaterThan(half)
  expect(Number(found!.used)).toBeLessThan(half + 1_024)
})

test('the number of keys with small answers is limited too', async () => {
  await using given = await givenRepeatable()
  await setQuota(given.sql, 'acct_1', 'idempotency_bytes', 100_000)
  const outcomes: string[] = []
  for (let call = 0; call < 220; call += 1) {
    const done = given.call({ key: `key ${call}` }).then(() => 'done')
    outcomes.push(await done.catch(({ code }: { code: string }) => code))
  }
  const made = await given.made()
  expect(made).toBeGreaterThan(150)
  expect(made).toBeLessThan(200)
  expect(outcomes).toEqual([
    ...Array<string>(made).fill('done'),
    ...Array<string>(220 - made).fill('quota_exceeded'),
  ])
})
