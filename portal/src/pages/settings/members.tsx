import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { signOut, useSession } from '../../api/session.ts'
import { memberList, type Member, type MemberRole } from '../../api/settings.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Status, Time } from '../../parts/text.tsx'

const meanings: Readonly<Record<MemberRole, string>> = {
  viewer: 'reads',
  support: 'reads, issues, edits, suspends and revokes licences',
  admin: 'may do everything except change members',
  owner: 'may do everything',
}

export function Members() {
  const { own } = useSession()
  const { applications } = useApplication()
  const [{ open, edited }, setAddress] = useAddress()
  const page = usePages('members', memberList)
  const close = () => setAddress({ open: undefined, edited: undefined }, { replace: true })
  const nameOf = (id: string) => applications.find((one) => one.id === id)?.name ?? id
  const canChange = own.role === undefined || own.role === 'owner'
  const member = page.rows?.find(({ id }) => id === edited)
  return (
    <Section
      title="Members"
      actions={
        canChange && (
          <>
            <Button onClick={() => setAddress({ open: 'new-member' })}>Add member</Button>
            <Dialog title="Add member" open={open === 'new-member'} onClose={close}>
              <AddMemberForm onDone={close} />
            </Dialog>
            <Dialog title="Change role" open={open === 'member' && member !== undefined} onClose={close}>
              {member && <RoleForm member={member} onDone={close} />}
            </Dialog>
          </>
        )
      }
    >
      <PagedTable
        label="Members"
        columns={[
          {
            name: 'Name',
            wrap: true,
            cell: ({ id, name }) => (
              <span>
                {name ?? <None />} {id === own.id && <None>· you</None>}
              </span>
            ),
          },
          { name: 'E-mail address', wrap: true, cell: ({ email }) => email },
          { name: 'Role', cell: ({ role }) => role },
          { name: 'Access to', cell: ({ app_id: id }) => (id === null ? 'all applications' : nameOf(id)) },
          { name: 'Last sign-in', cell: ({ last_sign_in_at: at }) => <Time at={at} none="never" /> },
          {
            name: 'Actions',
            quiet: true,
            align: 'end',
            cell: (one) => {
              if (one.removed_at !== null) return <Status of="removed" />
              if (!canChange) return null
              return (
                <>
                  <Button kind="quiet" onClick={() => setAddress({ open: 'member', edited: one.id })}>
                    Change role<span className="visually-hidden"> of {one.email}</span>
                  </Button>
                  <RemoveButton member={one} />
                </>
              )
            },
          },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty={<None>There are no members. Without members, people sign in with API keys.</None>}
      />
    </Section>
  )
}

function RemoveButton({ member: { id, name, email } }: { member: Member }) {
  const { own } = useSession()
  return (
    <ConfirmButton
      action="Remove"
      look="quiet"
      run={async () => {
        await api.delete('/v1/members/{member_id}', { path: { member_id: id } })
        if (id === own.id) await signOut()
      }}
    >
      <p>
        <strong>{name ?? email}</strong> ({email}) is signed out within two seconds, and cannot sign in again.
        API keys that this person has created stay valid.
      </p>
      {id === own.id && <p>This is you.</p>}
    </ConfirmButton>
  )
}

function AddMemberForm({ onDone }: { onDone: () => void }) {
  const { applications } = useApplication()
  return (
    <Form
      submit="Add"
      run={async (values, idempotencyKey) => {
        const appId = values.text('app_id')
        const role = values.text('role') as MemberRole
        const body = { email: values.text('email'), role, ...(appId !== '' && { app_id: appId }) }
        await api.post('/v1/members', { body, idempotencyKey })
        onDone()
      }}
    >
      <TextField
        label="E-mail address"
        name="email"
        type="email"
        maxLength={254}
        required
        hint="The address with which the person signs in. No mail is sent: tell the person yourself."
      />
      <RoleField chosen="viewer" />
      <SelectField label="Application" name="app_id" hint="An owner has access to all applications.">
        <option value="">all applications</option>
        {applications.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}

function RoleForm({ member: { id, email, role }, onDone }: { member: Member; onDone: () => void }) {
  return (
    <Form
      submit="Save"
      run={async (values) => {
        const body = { role: values.text('role') as MemberRole }
        await api.patch('/v1/members/{member_id}', { path: { member_id: id }, body })
        onDone()
      }}
    >
      <p>The new role of {email} counts within two seconds.</p>
      <RoleField chosen={role} />
    </Form>
  )
}

function RoleField({ chosen }: { chosen: MemberRole }) {
  return (
    <SelectField label="Role" name="role" defaultValue={chosen}>
      {(Object.keys(meanings) as MemberRole[]).map((one) => (
        <option key={one} value={one}>
          {one}: {meanings[one]}
        </option>
      ))}
    </SelectField>
  )
}
