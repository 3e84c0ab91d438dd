import { actOn, licenceQuery, type LicenceDetail, type LicenceStatus, type Verb } from '../../api/licences.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../parts/address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, ReadNow, Dialog } from '../../parts/dialog.tsx'
import { Actions } from '../../parts/page.tsx'
import { api } from '../../api/client.ts'
import { TextField } from '../../parts/fields.tsx'
import { Form, type Values } from '../../parts/form.tsx'
import { endOfDay, readRestrictions, RestrictionFields } from '../licences/licence-fields.tsx'

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

const canBeEdited: Record<LicenceStatus, boolean> = {
  active: true,
  suspended: true,
  expired: true,
  downgraded: true,
  revoked: false,
  retired: false,
}

/** The verbs that would change the licence now, and its editing. */
export function LicenceActions({ licence }: { licence: LicenceDetail }) {
  const { can } = useSession()
  const [, setAddress] = useAddress()
  return (
    <Actions>
      {can('issue') && canBeEdited[licence.status] && (
        <>
          <Button onClick={() => setAddress({ open: 'edit' })}>Edit</Button>
          <EditLicence licence={licence} />
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

function EditLicence({ licence }: { licence: LicenceDetail }) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="Edit licence" open={open === 'edit'} onClose={close}>
      <Form
        submit="Save"
        run={async (values) => {
          const body = changesOf(licence, values)
          await api.patch('/v1/licences/{licence_id}', { path: { licence_id: licence.id }, body })
          close()
        }}
      >
        <TextField
          label="Customer reference"
          name="external_ref"
          required

          defaultValue={licence.external_ref}
        />
        <RestrictionFields restrictions={licence.restrictions} expiresOn={licence.expires_on} />
      </Form>
    </Dialog>
  )
}

/** A day that was left as it is leaves its time of day too. */
function changesOf(licence: LicenceDetail, values: Values) {
  const day = values.text('expires_on')
  return {
    external_ref: values.text('external_ref'),
    restrictions: readRestrictions(values),
    ...(day !== (licence.expires_on?.slice(0, 10) ?? '') && { expires_on: endOfDay(day) }),
  }
}
