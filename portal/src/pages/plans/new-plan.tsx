import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { useAddress } from '../../parts/address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'

export function NewPlan() {
  const { appId } = useApplication()
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="New plan" open={open === 'new-plan'} onClose={close}>
      <Form
        submit="Create"
        run={async (values, idempotencyKey) => {
          await api.post('/v1/apps/{app_id}/plans', {
            path: { app_id: appId },
            body: { name: values.text('name'), code: values.text('code') },
            idempotencyKey,
          })
          close()
        }}
      >
        <TextField label="Name" name="name" required hint="The name that customers see, such as Pro." />
        <TextField
          label="Code"
          name="code"
          required
          maxLength={64}
          hint="Used in files and imports. Letters, digits, dots, hyphens and underscores."
        />
      </Form>
    </Dialog>
  )
}
