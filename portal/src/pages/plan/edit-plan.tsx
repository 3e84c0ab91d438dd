import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import type { Plan } from '../../api/plans.ts'
import { useAddress } from '../../parts/address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'

/** The plan's name and code. */
export function EditPlan({ plan }: { plan: Plan }) {
  const { appId } = useApplication()
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="Rename" open={open === 'rename'} onClose={close}>
      <Form
        submit="Rename"
        run={async (values) => {
          await api.patch('/v1/apps/{app_id}/plans/{plan_id}', {
            path: { app_id: appId, plan_id: plan.id },
            body: { name: values.text('name'), code: values.text('code') },
          })
          close()
        }}
      >
        <TextField label="Name" name="name" required defaultValue={plan.name} />
        <TextField
          label="Code"
          name="code"
          required
          maxLength={64}
          defaultValue={plan.code}
          hint="Your files and imports may use the current code."
        />
      </Form>
    </Dialog>
  )
}
