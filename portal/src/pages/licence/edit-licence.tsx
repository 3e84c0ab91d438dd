import { api } from '../../api/client.ts'
import type { LicenceDetail } from '../../api/licences.ts'
import { useAddress } from '../../parts/address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form, type Values } from '../../parts/form.tsx'
import { endOfDay, readRestrictions, RestrictionFields } from '../licences/licence-fields.tsx'

export function EditLicence({ licence }: { licence: LicenceDetail }) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="Edit licence" open={open === 'edit'} onClose={close}>
      <Form
        submit="Save"
        run={async (values) => {
          const body = changesOf(licence, values)
          await api.patch('/v1/licences/{licence_id}', { path: { licence_id: licence.id }, body })
          close()
        }}
      >
        <TextField
          label="Customer reference"
          name="external_ref"
          required

          defaultValue={licence.external_ref}
        />
        <RestrictionFields restrictions={licence.restrictions} expiresOn={licence.expires_on} />
      </Form>
    </Dialog>
  )
}

/** A day that was left as it is leaves its time of day too. */
function changesOf(licence: LicenceDetail, values: Values) {
  const day = values.text('expires_on')
  return {
    external_ref: values.text('external_ref'),
    restrictions: readRestrictions(values),
    ...(day !== (licence.expires_on?.slice(0, 10) ?? '') && { expires_on: endOfDay(day) }),
  }
}
