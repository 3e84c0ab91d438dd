import { newIdempotencyKey } from '@licensing/sdk/backend'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { LicenceDetail } from '../../api/licences.ts'
import { changePlan, paidLicenceQuery } from '../../api/plan-change.ts'
import { plansQuery } from '../../api/plans.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { endOfDay } from '../licences/licence-fields.tsx'

export function ChangePlan({ licence }: { licence: LicenceDetail }) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="Change plan" open={open === 'change-plan'} onClose={close}>
      <ChangeForm licence={licence} onDone={close} />
    </Dialog>
  )
}

function ChangeForm({ licence, onDone }: { licence: LicenceDetail; onDone: () => void }) {
  const [before] = useState(licence)
  // When the user tries again, the sale has the same key and time, so that it is recorded once.
  const [sale] = useState(() => ({ key: newIdempotencyKey(), openedAt: Date.now() }))
  const plans = useQuery(plansQuery(before.application_id))
  const paid = useQuery(paidLicenceQuery(before))
  const others = plans.data?.filter(({ id, status }) => status === 'active' && id !== before.plan_id) ?? []
  const isAnother = paid.data !== undefined && paid.data !== before.id
  return (
    <Form
      submit="Change plan"
      disabled={paid.data === undefined || isAnother || others.length === 0}
      run={async (values) => {
        const expiresOn = endOfDay(values.text('expires_on'), before.expires_on)
        await changePlan(before, { ...sale, planId: values.text('plan_id'), expiresOn })
        onDone()
      }}
    >
      <ReadProblem of={[plans, paid]} />
      {isAnother && (
        <p>
          <strong>{before.external_ref}</strong> has a newer licence, and a sale changes that one.{' '}
          {paid.data !== null && (
            <Link
              to="/licences/$licenceId"
              params={{ licenceId: paid.data }}
              search={{ open: 'change-plan' }}
            >
              Change the plan of the newer licence
            </Link>
          )}
        </p>
      )}
      <SelectField
        label="New plan"
        name="plan_id"
        required
        hint={plans.data && others.length === 0 ? 'There is no other active plan.' : undefined}
      >
        {others.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      <TextField
        label="Expires on"
        name="expires_on"
        type="date"
        defaultValue={before.expires_on?.slice(0, 10)}
        hint="At the end of that day, UTC. Empty: as the price of the plan says, or never."
      />
      <p>
        The licence gets the values that the plan has now. This is recorded as a sale of 0. A subscription of
        the customer is not changed: change or cancel it at the payment processor.
      </p>
    </Form>
  )
}
