import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Override } from '@licensing/proto/licensing'
import type { Harness } from './harness.ts'
import { detailOf, verbOn } from './makers.ts'

export interface OverrideFields {
  value: string
  endsOn?: Date
  note?: string
}

export function setOverride(
  harness: Harness,
  licence: { id: string },
  key: string,
  { value, endsOn, note }: OverrideFields,
): Promise<Override> {
  return harness.licensing.setOverride({
    ...verbOn(harness, licence),
    key,
    value,
    ...(endsOn && { endsOn: timestampFromDate(endsOn) }),
    note,
  })
}

export function deleteOverride(harness: Harness, licence: { id: string }, key: string) {
  return harness.licensing.deleteOverride({ ...verbOn(harness, licence), key })
}

/** The entitlements of a licence's products: `value from` by key. */
export async function effectiveOf(
  harness: Harness,
  licence: { id: string },
): Promise<Record<string, string>> {
  const { effective } = await detailOf(harness, licence)
  return Object.fromEntries(effective.map(({ key, value, from }) => [key, `${value} ${from}`]))
}

/** Changes the overrides of a licence as if their ends had passed. */
export async function letEndsPass({ sql }: Harness, licence: { id: string }): Promise<void> {
  await sql`
    update licence_overrides set ends_on = now() - interval '1 second'
    where licence_id = ${licence.id} and ends_on is not null`
}
