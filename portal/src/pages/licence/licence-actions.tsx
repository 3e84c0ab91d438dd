import { actOn, licenceQuery, type LicenceDetail, type Verb } from '../../api/licences.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, ReadNow } from '../../parts/dialog.tsx'
import { Actions } from '../../parts/page.tsx'
import { useCanEdit } from './can-edit.ts'
import { ChangePlan } from './change-plan.tsx'
import { EditLicence } from './edit-licence.tsx'

const verbs: Readonly<Record<Verb, { name: string; effect: string; isFinal: boolean }>> = {
  suspend: {
    name: 'Suspend',
    effect:
      'Installed products lose access at their next token refresh, after 24 hours at most by default. You can reactivate the licence.',
    isFinal: false,
  },
  reactivate: {
    name: 'Reactivate',
    effect: 'Installed products regain access at their next token refresh.',
    isFinal: false,
  },
  revoke: {
    name: 'Revoke',
    effect: 'Installed products lose access within minutes. A revocation is permanent: it cannot be undone.',
    isFinal: true,
  },
  retire: {
    name: 'Retire',
    effect: 'The licence is permanently out of use and can no longer be changed. This cannot be undone.',
    isFinal: true,
  },
}

const allVerbs = Object.keys(verbs) as Verb[]

/** Buttons for the verbs that are possible in the licence's status, and for editing. */
export function LicenceActions({ licence }: { licence: LicenceDetail }) {
  const { can } = useSession()
  const [, setAddress] = useAddress()
  return (
    <Actions>
      {useCanEdit(licence) && (
        <>
          <Button onClick={() => setAddress({ open: 'edit' })}>Edit</Button>
          <EditLicence licence={licence} />
          {/* A sale needs a customer. */}
          {!licence.trial && (
            <>
              <Button onClick={() => setAddress({ open: 'change-plan' })}>Change plan</Button>
              <ChangePlan licence={licence} />
            </>
          )}
        </>
      )}
      {can('revoke') &&
        allVerbs.map((verb) => (
          <ConfirmButton
            key={verb}
            hidden={!licence.allowed.includes(verb)}
            action={verbs[verb].name}
            kind={verbs[verb].isFinal ? 'danger' : 'primary'}
            run={() => actOn(licence.id, verb)}
          >
            <ReadNow query={licenceQuery(licence.id)}>
              {({ external_ref: reference, status }) => (
                <p>
                  The licence of <strong>{reference}</strong> is {status}. {verbs[verb].effect}
                </p>
              )}
            </ReadNow>
          </ConfirmButton>
        ))}
    </Actions>
  )
}
