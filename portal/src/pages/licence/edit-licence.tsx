import { useState } from 'react'
import { updateLicence, type LicenceDetail } from '../../api/licences.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { changedFields, TermFields } from '../licences/licence-fields.tsx'

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
        await updateLicence(before.id, changedFields(before, values))
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
