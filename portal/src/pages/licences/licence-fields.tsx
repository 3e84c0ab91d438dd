import type { Licence } from '../../api/licences.ts'
import { TextAreaField, TextField } from '../../parts/fields.tsx'
import { Pair, type Values } from '../../parts/form.tsx'

type Restrictions = NonNullable<Licence['restrictions']>
type Limit = Exclude<keyof Restrictions, 'domains'>

const nothing: Pick<Licence, 'restrictions' | 'expires_on' | 'updates_until'> = {
  restrictions: null,
  expires_on: null,
  updates_until: null,
}

/** The fields of both the dialog that issues a licence and the one that edits it. */
export function TermFields({ of = nothing }: { of?: typeof nothing }) {
  const { restrictions, expires_on: expiresOn, updates_until: updatesUntil } = of
  return (
    <>
      <Pair>
        <TextField
          label="Expires on"
          name="expires_on"
          type="date"
          defaultValue={expiresOn?.slice(0, 10)}
          hint="At the end of that day, UTC. Empty: never."
        />
        <TextField
          label="Updates until"
          name="updates_until"
          type="date"
          defaultValue={updatesUntil?.slice(0, 10)}
          hint="Releases until the end of that day are included. Empty: all releases."
        />
      </Pair>
      <Pair>
        <TextField
          label="Maximum activations"
          name="restrictions/max_activations"
          inputMode="numeric"
          defaultValue={restrictions?.max_activations}
          hint="Machines. Empty: no maximum."
        />
        <TextField
          label="Seats"
          name="restrictions/max_seats"
          inputMode="numeric"
          defaultValue={restrictions?.max_seats}
          hint="Enforced by the product."
        />
      </Pair>
      <TextAreaField
        label="Domains"
        name="restrictions/domains"
        defaultValue={restrictions?.domains?.join('\n')}
        hint="Host names on which the product may run, separated by spaces or lines. *.example.com allows all subdomains. Empty: any host."
      />
      <Pair>
        <TextField
          label="Slots at once"
          name="restrictions/max_concurrent"
          inputMode="numeric"
          defaultValue={restrictions?.max_concurrent}
          hint="Makes the licence floating: so many machines can use it at the same time. Empty: not floating."
        />
        <TextField
          label="Lease in minutes"
          name="restrictions/lease_minutes"
          inputMode="numeric"
          defaultValue={restrictions?.lease_minutes}
          hint="How long a machine holds its place after it last called. Empty: 15, if the licence is floating."
        />
      </Pair>
    </>
  )
}

const limits = Object.keys({
  max_activations: true,
  max_concurrent: true,
  lease_minutes: true,
  max_seats: true,
} satisfies Record<Limit, true>) as Limit[]

/** Null if nothing is restricted. */
export function readRestrictions(values: Values): Restrictions | null {
  const domains = values
    .text('restrictions/domains')
    .split(/[\s,;]+/)
    .filter((domain) => domain !== '')
  const restrictions: Restrictions = domains.length > 0 ? { domains } : {}
  for (const limit of limits) {
    const number = values.number(`restrictions/${limit}`)
    if (number !== null) restrictions[limit] = number
  }
  return Object.keys(restrictions).length === 0 ? null : restrictions
}

/** The end of the day as a timestamp. If the day is the same as in `before`, it returns `before`, so that the time of day stays. */
export function endOfDay(day: string, before: string | null = null): string | null {
  if (day === '') return null
  return before?.slice(0, 10) === day ? before : `${day}T23:59:59.999Z`
}
