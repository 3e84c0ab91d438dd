import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import type { Licence } from '../../api/licences.ts'
import { plansQuery } from '../../api/plans.ts'
import { useAddress } from '../../address.ts'
import { Actions } from '../../parts/page.tsx'
import { Button } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form, Result } from '../../parts/form.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { MetadataFields, readMetadata } from '../../parts/metadata.tsx'
import { readFields, TermFields } from './licence-fields.tsx'

export function IssueLicence() {
  const [{ open }, setAddress] = useAddress()
  const [issued, setIssued] = useState<Licence | null>(null)
  const close = () => {
    setAddress({ open: undefined }, { replace: true })
    setIssued(null)
  }
  return (
    <Dialog title="Issue licence" open={open === 'issue'} onClose={close}>
      {issued ? <Issued licence={issued} onClose={close} /> : <IssueForm onIssued={setIssued} />}
    </Dialog>
  )
}

function IssueForm({ onIssued }: { onIssued: (licence: Licence) => void }) {
  const { appId } = useApplication()
  const reading = useQuery(plansQuery(appId))
  const { data: plans } = reading
  const active = plans?.filter(({ status }) => status === 'active') ?? []
  return (
    <Form
      submit="Issue"
      run={async (values, idempotencyKey) => {
        const licence = await api.post('/v1/apps/{app_id}/licences', {
          path: { app_id: appId },
          body: {
            ...readFields(values),
            plan_id: values.text('plan_id'),
            metadata: readMetadata(values),
          },
          idempotencyKey,
        })
        onIssued(licence)
      }}
    >
      <ReadProblem of={reading} />
      <TextField label="Customer reference" name="external_ref" required />
      <SelectField
        label="Plan"
        name="plan_id"
        required
        hint={
          plans && active.length === 0 ? (
            <>
              There is no active plan. <Link to="/plans">Create one first</Link>.
            </>
          ) : undefined
        }
      >
        {active.map(({ id, name, code }) => (
          <option key={id} value={id}>
            {active.some((other) => other.id !== id && other.name === name) ? `${name} (${code})` : name}
          </option>
        ))}
      </SelectField>
      <TermFields />
      <MetadataFields />
    </Form>
  )
}

function Issued({ licence, onClose }: { licence: Licence; onClose: () => void }) {
  return (
    <>
      <Result>
        The licence of <strong>{licence.external_ref}</strong> is {licence.status}. Its key:
      </Result>
      <Copy name="Copy key" text={licence.key} />
      <Actions>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
        <Link to="/licences/$licenceId" params={{ licenceId: licence.id }}>
          Show the licence
        </Link>
      </Actions>
    </>
  )
}
