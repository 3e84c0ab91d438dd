import type { Licence } from '../../api/licences.ts'
import { TextAreaField, TextField } from '../../parts/fields.tsx'
import type { Values } from '../../parts/form.tsx'

interface RestrictionFieldsProps {
  restrictions: Licence['restrictions']
  expiresOn: string | null
}

/** What issuing and editing a licence have in common. */
export function RestrictionFields({ restrictions, expiresOn }: RestrictionFieldsProps) {
  return (
    <>
      <TextField
        label="Maximum activations"
        name="restrictions/max_activations"
        inputMode="numeric"
        defaultValue={restrictions?.max_activations}
        hint="Empty: no maximum."
      />
      <TextField
        label="Seats"
        name="restrictions/max_seats"
        inputMode="numeric"
        defaultValue={restrictions?.max_seats}
        hint="Enforced by the product."
      />
      <TextAreaField
        label="Domains"
        name="restrictions/domains"
        defaultValue={restrictions?.domains?.join('\n')}
        hint="Host names on which the product may run, separated by spaces or lines. *.example.com allows all subdomains. Empty: any host."
      />
      <TextField
        label="Expires on"
        name="expires_on"
        type="date"
        defaultValue={expiresOn?.slice(0, 10)}
        hint="At the end of that day, UTC. Empty: never."
      />
    </>
  )
}

/** Null if nothing is restricted. A text that is no number is sent unchanged, so that the service refuses the field. */
export function readRestrictions(values: Values): NonNullable<Licence['restrictions']> | null {
  const number = (name: string) => {
    const text = values.text(`restrictions/${name}`)
    return /^-?\d+$/.test(text) ? Number(text) : (text as unknown as number)
  }
  const activations = number('max_activations')
  const seats = number('max_seats')
  const domains = values
    .text('restrictions/domains')
    .split(/[\s,;]+/)
    .filter((domain) => domain !== '')
  const restrictions = {
    ...(String(activations) !== '' && { max_activations: activations }),
    ...(String(seats) !== '' && { max_seats: seats }),
    ...(domains.length > 0 && { domains }),
  }
  return Object.keys(restrictions).length === 0 ? null : restrictions
}

export function endOfDay(date: string): string | null {
  return date === '' ? null : `${date}T23:59:59.999Z`
}
