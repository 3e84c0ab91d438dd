import type { LicensingBackend } from '@licensing/sdk/backend'
import { Refusal } from './failures.ts'

/** The application asked for, else the key's, else the account's only one. */
export async function findApplication(backend: LicensingBackend, asked: string | undefined): Promise<string> {
  if (asked !== undefined) return asked
  const { app_id: bound } = await backend.get('/v1/api-keys/self')
  if (bound !== null) return bound
  const apps: { id: string; name: string }[] = []
  for await (const { id, name } of backend.rows('/v1/apps')) apps.push({ id, name })
  const [only] = apps
  if (only === undefined) throw new Refusal('application_required', 'the account has no application yet')
  if (apps.length === 1) return only.id
  throw new Refusal(
    'application_required',
    'the account has several applications: choose one with --app or LICENSING_APP',
    { applications: apps },
    apps.map(({ id, name }) => `  ${id}  ${name}`),
  )
}
