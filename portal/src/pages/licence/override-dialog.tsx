import { useState } from 'react'
import { api } from '../../api/client.ts'
import type { LicenceDetail } from '../../api/licences.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextAreaField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { endOfDay } from '../licences/licence-fields.tsx'
import { entitlementRows, type EntitlementRow } from './entitlement-rows.ts'

/** Sets an override for the entitlement that is named in the address. */
export function OverrideDialog({ licence }: { licence: LicenceDetail }) {
  const [{ open, entitlement }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined, entitlement: undefined }, { replace: true })
  const row = entitlementRows(licence).find(({ key }) => key === entitlement)
  return (
    <Dialog
      title={`Override ${entitlement ?? ''}`}
      open={open === 'override' && row !== undefined}
      onClose={close}
    >
      {row && <OverrideForm licenceId={licence.id} row={row} onDone={close} />}
    </Dialog>
  )
}

interface OverrideFormProps {
  licenceId: string
  row: EntitlementRow
  onDone: () => void
}

function OverrideForm({ licenceId, row, onDone }: OverrideFormProps) {
  const [{ key, kind, snapshot, effective, override }] = useState(row)
  const value = override?.value ?? effective?.value ?? snapshot ?? undefined
  const hint = snapshot === null ? 'Without the override: the default.' : `Without the override: ${snapshot}.`
  return (
    <Form
      submit="Save"
      run={async (values) => {
        const note = values.text('note')
        await api.put('/v1/licences/{licence_id}/overrides/{key}', {
          path: { licence_id: licenceId, key },
          body: {
            value: values.text('value'),
            ends_on: endOfDay(values.text('ends_on'), override?.ends_on),
            note: note === '' ? null : note,
          },
        })
        onDone()
      }}
    >
      {kind === 'limit' ? (
        <TextField
          label="Value"
          name="value"
          inputMode="numeric"
          required
          defaultValue={value}
          hint={`A whole number. ${hint}`}
        />
      ) : (
        <SelectField label="Value" name="value" defaultValue={value} hint={hint}>
          <option value="true">true</option>
          <option value="false">false</option>
        </SelectField>
      )}
      <TextField
        label="Ends on"
        name="ends_on"
        type="date"
        defaultValue={override?.ends_on?.slice(0, 10)}
        hint="At the end of that day, UTC. Empty: it does not end."
      />
      <TextAreaField
        label="Note"
        name="note"
        defaultValue={override?.note ?? ''}
        hint="Why the licence has it, such as: promised in ticket 812. Products never see it."
      />
    </Form>
  )
}
