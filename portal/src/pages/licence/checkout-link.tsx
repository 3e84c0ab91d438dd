import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import type { LicenceDetail } from '../../api/licences.ts'
import type { Checkout } from '../../api/payments.ts'
import { plansQuery } from '../../api/plans.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form, Result } from '../../parts/form.tsx'
import { Actions } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { money } from '../../parts/text.tsx'
import { useCanEdit } from './can-edit.ts'

/** Creates a link that the customer uses to pay for this licence. */
export function CheckoutLink({ licence }: { licence: LicenceDetail }) {
  const canEdit = useCanEdit(licence)
  const [{ open }, setAddress] = useAddress()
  const [checkout, setCheckout] = useState<Checkout | null>(null)
  const close = () => {
    setAddress({ open: undefined }, { replace: true })
    setCheckout(null)
  }
  // A sale needs a customer.
  if (!canEdit || licence.trial) return null
  return (
    <>
      <Button onClick={() => setAddress({ open: 'checkout' })}>Checkout link</Button>
      <Dialog title="Checkout link" open={open === 'checkout'} onClose={close}>
        {checkout ? (
          <>
            <Result>
              With this link <strong>{checkout.external_ref}</strong> pays{' '}
              {money(checkout.amount, checkout.currency)}. The payment lands on the customer’s newest licence.
            </Result>
            <Copy name="Copy link" text={checkout.url} />
            <Actions>
              <Button kind="primary" onClick={close}>
                Done
              </Button>
            </Actions>
          </>
        ) : (
          <CheckoutForm licence={licence} onCreated={setCheckout} />
        )}
      </Dialog>
    </>
  )
}

interface CheckoutFormProps {
  licence: LicenceDetail
  onCreated: (checkout: Checkout) => void
}

function CheckoutForm({ licence, onCreated }: CheckoutFormProps) {
  const { application_id: appId, plan_id: planId, external_ref: reference } = licence
  const plans = useQuery(plansQuery(appId))
  const active = plans.data?.filter(({ status }) => status === 'active') ?? []
  return (
    <Form
      submit="Create link"
      fieldOf={(pointer) => (pointer === '/cancel_url' ? 'success_url' : pointer.slice(1))}
      run={async (values, idempotencyKey) => {
        const returnTo = values.text('success_url')
        const checkout = await api.post('/v1/apps/{app_id}/checkout-sessions', {
          path: { app_id: appId },
          body: {
            plan_id: values.text('plan_id'),
            external_ref: reference,
            success_url: returnTo,
            cancel_url: returnTo,
          },
          idempotencyKey,
        })
        onCreated(checkout)
      }}
    >
      <ReadProblem of={plans} />
      <SelectField
        // A select keeps its first option, so it is rendered again when the plans are loaded.
        key={plans.data ? 'known' : 'unknown'}
        label="Plan"
        name="plan_id"
        required
        defaultValue={planId}
        hint="It needs a price, and a connected processor."
      >
        {active.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      <TextField
        label="Return address"
        name="success_url"
        type="url"
        required
        placeholder="https://"
        hint="The page of your shop to which the customer comes back after the payment."
      />
    </Form>
  )
}
