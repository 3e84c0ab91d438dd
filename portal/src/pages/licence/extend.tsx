import { useMutation } from '@tanstack/react-query'
import { useRef } from 'react'
import { licenceQuery, updateLicence, type LicenceDetail } from '../../api/licences.ts'
import { queryClient } from '../../api/query-client.ts'
import { announce } from '../../parts/announce.tsx'
import { Button } from '../../parts/button.tsx'
import { Problem } from '../../parts/problem.tsx'
import { day } from '../../parts/text.tsx'
import { extendedEnd } from './extended-end.ts'
import styles from './licence.module.css'

/** Moves the end of a licence with one click. */
export function Extend({ licence }: { licence: LicenceDetail }) {
  // The end that is being saved. If the answer is lost, trying again sends the same end, so that the licence is extended once.
  const chosen = useRef<string>(undefined)
  const extending = useMutation({
    mutationFn: async (months: number) => {
      if (chosen.current === undefined) {
        const now = await queryClient.fetchQuery({ ...licenceQuery(licence.id), staleTime: 0 })
        if (now.expires_on === null) throw new Error('the licence never expires now')
        chosen.current = extendedEnd(now.expires_on, months, new Date())
      }
      await updateLicence(licence.id, { expires_on: chosen.current })
      announce(`Extended until ${day(chosen.current)}`)
      chosen.current = undefined
    },
  })
  const extend = (months: number) => {
    chosen.current = undefined
    extending.mutate(months)
  }
  return (
    <div className={styles.extend}>
      {[
        { months: 1, name: 'Extend by a month' },
        { months: 12, name: 'Extend by a year' },
      ].map(({ months, name }) => (
        <Button
          key={months}
          kind="quiet"
          busy={extending.isPending && extending.variables === months}
          disabled={extending.isPending}
          onClick={() => extend(months)}
        >
          {name}
        </Button>
      ))}
      {extending.isError && (
        <Problem error={extending.error} retry={() => extending.mutate(extending.variables)} />
      )}
    </div>
  )
}
