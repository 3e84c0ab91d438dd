import type { ApiClient } from './api-client.ts'

/** The account of a new stack and its application; throws while they are not there yet. */
export async function demoAccount(api: ApiClient): Promise<{ accountId: string; appId: string }> {
  const account = await api.get<{ id: string }>('/v1/account')
  const apps = await api.get<{ data: { id: string }[] }>('/v1/apps')
  const app = apps.body.data[0]
  if (account.status !== 200 || app === undefined) throw new Error(`no demo account yet (${account.status})`)
  return { accountId: account.body.id, appId: app.id }
}
