import { useState } from 'react'
import { updateLicence, type LicenceChange, type LicenceDetail } from '../../api/licences.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form, type Values } from '../../parts/form.tsx'
import { endOfDay, readRestrictions, TermFields } from '../licences/licence-fields.tsx'

export function EditLicence({ licence }: { licence: LicenceDetail }) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="Edit licence" open={open === 'edit'} onClose={close}>
      <EditForm licence={licence} onDone={close} />
    </Dialog>
  )
}

function EditForm({ licence, onDone }: { licence: LicenceDetail; onDone: () => void }) {
  // The licence when the dialog opened. Unchanged fields are not sent, because somebody else may change them meanwhile.
  const [before] = useState(licence)
  return (
    <Form
      submit="Save"
      run={async (values) => {
        await updateLicence(before.id, changesOf(before, values))
        onDone()
      }}
    >
      <TextField
        label="Customer reference"
        name="external_ref"
        required
        defaultValue={before.external_ref}
        hint={before.trial ? 'Another reference makes the trial a customer’s licence.' : undefined}
      />
      <TermFields of={before} />
    </Form>
  )
}

function changesOf(before: LicenceDetail, values: Values): LicenceChange {
  const reference = values.text('external_ref')
  const restrictions = readRestrictions(values)
  const expiresOn = endOfDay(values.text('expires_on'), before.expires_on)
  const updatesUntil = endOfDay(values.text('updates_until'), before.updates_until)
  return {
    ...(reference !== before.external_ref && { external_ref: reference }),
    ...(!isSame(restrictions, before.restrictions) && { restrictions }),
    ...(expiresOn !== before.expires_on && { expires_on: expiresOn }),
    ...(updatesUntil !== before.updates_until && { updates_until: updatesUntil }),
  }
}

type Restrictions = LicenceDetail['restrictions']

function isSame(one: Restrictions, other: Restrictions): boolean {
  const inOrder = (restrictions: Restrictions) => {
    const entries = Object.entries(restrictions ?? {})
    return JSON.stringify(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
  }
  return inOrder(one) === inOrder(other)
}
