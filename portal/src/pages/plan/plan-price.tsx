import { mainUnits, minorUnits } from '@licensing/money/amounts'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { oneOf } from '../../api/paged-list.ts'
import type { Plan, Price } from '../../api/plans.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { Facts } from '../../parts/facts.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Box, Section } from '../../parts/page.tsx'
import { refusedField } from '../../parts/refused.ts'
import { money, None } from '../../parts/text.tsx'

const modes = { payment: 'paid once', subscription: 'subscription' } as const satisfies Record<
  Price['mode'],
  string
>

interface PlanPriceProps {
  appId: string
  plan: Plan
  /** Null if the plan has none. */
  price: Price | null
}

/** The plan's price at the payment processor, and the period that a payment covers. */
export function PlanPrice({ appId, plan, price }: PlanPriceProps) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  const path = { app_id: appId, plan_id: plan.id }
  return (
    <Section
      title="Price"
      actions={
        <>
          <Button onClick={() => setAddress({ open: 'price' })}>{price ? 'Edit price' : 'Set price'}</Button>
          <ConfirmButton
            hidden={price === null}
            action="Delete price"
            run={() => api.delete('/v1/apps/{app_id}/plans/{plan_id}/price', { path })}
          >
            <p>{plan.name} can no longer be sold. Existing licences are not affected.</p>
          </ConfirmButton>
          <Dialog title="Price" open={open === 'price'} onClose={close}>
            <PriceForm path={path} price={price} onDone={close} />
          </Dialog>
        </>
      }
    >
      {price ? (
        <Facts
          narrow
          of={{
            Amount: money(price.amount, price.currency),
            Kind: modes[price.mode],
            'Licence ends after': months(
              price.period_months,
              price.mode === 'payment' ? 'never' : 'the paid period',
            ),
            'Updates end after': months(price.updates_months, 'never'),
            'Price at the processor': <code>{price.price_id}</code>,
          }}
        />
      ) : (
        <Box>
          <p>The plan has no price: it can be issued, but not sold through checkout.</p>
        </Box>
      )}
    </Section>
  )
}

function months(number: number | null, none: string) {
  if (number === null) return <None>{none}</None>
  return number === 1 ? '1 month' : `${number} months`
}

interface PriceFormProps {
  path: { app_id: string; plan_id: string }
  price: Price | null
  onDone: () => void
}

function PriceForm({ path, price, onDone }: PriceFormProps) {
  const [mode, setMode] = useState<Price['mode']>(price?.mode ?? 'payment')
  return (
    <Form
      submit="Save"
      run={async (values) => {
        const currency = values.text('currency').toLowerCase()
        if (!/^[a-z]{3}$/.test(currency)) {
          throw refusedField('/currency', 'Enter the three letters of a currency, such as EUR.')
        }
        const amount = minorUnits(values.text('amount'), currency)
        if (amount === undefined) {
          throw refusedField('/amount', `Enter an amount, such as ${mainUnits(4950, currency)}.`)
        }
        await api.put('/v1/apps/{app_id}/plans/{plan_id}/price', {
          path,
          body: {
            price_id: values.text('price_id'),
            amount,
            currency,
            mode,
            period_months: values.number('period_months'),
            updates_months: values.number('updates_months'),
          },
        })
        onDone()
      }}
    >
      <TextField
        label="Price at the processor"
        name="price_id"
        required
        placeholder="price_…"
        defaultValue={price?.price_id}
        hint="Its id in the Stripe dashboard."
      />
      <TextField
        label="Amount"
        name="amount"
        inputMode="decimal"
        required
        defaultValue={price ? mainUnits(price.amount, price.currency) : ''}
        hint="Such as 49 or 49.50, as at the processor."
      />
      <TextField
        label="Currency"
        name="currency"
        required
        maxLength={3}
        defaultValue={price?.currency.toUpperCase() ?? 'EUR'}
      />
      <SelectField
        label="Kind"
        name="mode"
        value={mode}
        onChange={({ target }) =>
          setMode(oneOf(['payment', 'subscription'] as const, target.value) ?? 'payment')
        }
      >
        {Object.entries(modes).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </SelectField>
      <TextField
        label="Months of the licence"
        name="period_months"
        inputMode="numeric"
        defaultValue={price?.period_months ?? ''}
        hint="If it is paid once. Empty: the licence never expires."
      />
      <TextField
        label="Months of updates"
        name="updates_months"
        inputMode="numeric"
        defaultValue={price?.updates_months ?? ''}
        hint="Releases in so many months after a payment are included, 1 to 120. Empty: a payment sets no limit."
      />
    </Form>
  )
}
