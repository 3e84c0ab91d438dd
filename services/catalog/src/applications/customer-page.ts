import { isFieldSet } from '@bufbuild/protobuf'
import { CustomerPageChangeSchema } from '@licensing/proto/catalog'
import type { CustomerPage, CustomerPageChange } from '@licensing/proto/catalog'

/** The settings of the page on which the vendor's customers see their licence. */
export type CustomerPageSettings = Omit<CustomerPage, '$typeName' | '$unknown'>

/** A support address and a colour are not set by default. */
const defaults: CustomerPageSettings = { freesPerDay: 3, offlineDays: 0, keySignIn: false }

/** @param stored the fields that the vendor has set */
export function customerPage(stored: Partial<CustomerPageSettings>): CustomerPageSettings {
  return { ...defaults, ...stored }
}

/** The fields that the vendor has set after a change. */
export function changedPage(
  stored: Partial<CustomerPageSettings>,
  change: CustomerPageChange,
): Partial<CustomerPageSettings> {
  const page: Record<string, unknown> = { ...stored }
  for (const field of CustomerPageChangeSchema.fields) {
    if (change.reset.includes(field.name)) delete page[field.localName]
    else if (field.name !== 'reset' && isFieldSet(change, field)) {
      page[field.localName] = change[field.localName as keyof CustomerPageSettings]
    }
  }
  return page
}
