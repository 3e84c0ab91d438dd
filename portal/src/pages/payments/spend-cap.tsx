import { mainUnits, minorUnits } from '@licensing/money/amounts'
import { useQuery } from '@tanstack/react-query'
import { api } from '../../api/client.ts'
import { spendCapQuery, type SpendCap, REFRESH_MS } from '../../api/payments.ts'
import { useAddress } from '../../address.ts'
import { Box, Section } from '../../parts/page.tsx'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { money, Time, Waiting } from '../../parts/text.tsx'
import styles from './payments.module.css'
import { refusedField } from '../../parts/refused.ts'

export function SpendCapSection() {
  const [{ open }, setAddress] = useAddress()
  const spendCap = useQuery({ ...spendCapQuery, refetchInterval: REFRESH_MS })
  const { data: cap, error } = spendCap
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Section
      title="Spend cap"
      actions={cap && <Button onClick={() => setAddress({ open: 'cap' })}>Change cap</Button>}
    >
      <ReadProblem of={spendCap} />
      {cap && <Spent cap={cap} />}
      {!cap && !error && <Awaited />}
      <Dialog title="Change cap" open={open === 'cap' && cap !== undefined} onClose={close}>
        {cap && <CapForm cap={cap} onDone={close} />}
      </Dialog>
    </Section>
  )
}

function Spent({ cap }: { cap: SpendCap }) {
  const { cap_minor: limit, spent_minor: spent, currency, period, paused, reached_at: reachedAt } = cap
  const write = (minor: number) => (currency === null ? '0' : money(minor, currency))
  const text = limit === null ? `${write(spent)} of fees, no cap` : `${write(spent)} of ${write(limit)}`
  return (
    <Box>
      <div className={styles.figures}>
        <strong>{text}</strong>
        <span>{period}</span>
      </div>
      <Meter
        name="Spend cap"
        value={limit === 0 ? 1 : spent}
        limit={limit === 0 ? 1 : (limit ?? 0)}
        text={text}
      />
      <p className={styles.note}>
        {paused ? (
          <>
            New checkouts are paused
            {reachedAt !== null && (
              <>
                {' '}
                since <Time at={reachedAt} />
              </>
            )}
            : raise or remove the cap, or wait for the next month. Checkouts that were open are still served.
          </>
        ) : (
          'The maximum transaction fees of this account in a month. When it is reached, new checkouts are paused.'
        )}
      </p>
    </Box>
  )
}

/** A placeholder with the height of the loaded content. */
function Awaited() {
  return (
    <Box>
      <div className={styles.figures}>
        <Waiting length="long" />
        <span className="visually-hidden">Loading…</span>
      </div>
      <div className={styles.meterPlace} aria-hidden="true" />
      <p className={styles.note}>
        <Waiting length="long" />
      </p>
    </Box>
  )
}

function CapForm({ cap, onDone }: { cap: SpendCap; onDone: () => void }) {
  return (
    <Form
      submit="Change"
      run={async (values) => {
        const currency = values.text('currency').toLowerCase()
        if (!/^[a-z]{3}$/.test(currency)) {
          throw refusedField('/currency', 'Enter the three letters of a currency, such as EUR.')
        }
        const entered = values.text('cap_minor')
        const minor = entered === '' ? null : minorUnits(entered, currency)
        if (minor === undefined) {
          throw refusedField('/cap_minor', `Enter an amount, such as ${mainUnits(4950, currency)}.`)
        }
        await api.put('/v1/spend-cap', { body: { cap_minor: minor, currency } })
        onDone()
      }}
    >
      <TextField
        label="Cap"
        name="cap_minor"
        inputMode="decimal"
        defaultValue={
          cap.cap_minor === null || cap.currency === null ? '' : mainUnits(cap.cap_minor, cap.currency)
        }
        hint="Such as 49 or 49.50. Empty: no cap."
      />
      <TextField
        label="Currency"
        name="currency"
        required
        maxLength={3}
        defaultValue={cap.currency?.toUpperCase() ?? 'EUR'}
        hint="While a cap is set, checkouts in other currencies are refused."
      />
    </Form>
  )
}

interface MeterProps {
  name: string
  value: number
  /** The limit; zero if there is none. */
  limit: number
  /** Value and limit in words. */
  text: string
}

/** Shows how much of a limit is used. From 90 % on it has the warning colour. */
function Meter({ name, value, limit, text }: MeterProps) {
  const max = Math.max(limit, 1)
  return (
    <meter
      className={styles.meter}
      aria-label={name}
      aria-valuetext={text}
      min={0}
      max={max}
      value={limit === 0 ? 0 : Math.max(0, Math.min(value, max))}
      high={max * 0.9}
      low={max * 0.9}
      optimum={0}
    >
      {text}
    </meter>
  )
}
