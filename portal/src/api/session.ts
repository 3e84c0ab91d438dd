import { createLicensingBackend, LicensingApiError, type Schemas } from '@licensing/sdk/backend'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, onSignedOut, sendAsPortal } from './client.ts'
import { queryClient } from './query-client.ts'

export type Scope = Schemas['OwnApiKey']['scopes'][number]

/** The API key or the person that is signed in; null if nobody is. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }): Promise<Schemas['OwnApiKey'] | null> => {
    try {
      return await api.get('/v1/api-keys/self', { signal })
    } catch (error) {
      if (error instanceof LicensingApiError && error.status === 401) return null
      throw error
    }
  },
  staleTime: 60_000,
})

/** The identity provider at which people sign in. Its name is null if there is none. */
export const providerQuery = queryOptions({
  queryKey: ['identity-provider'],
  queryFn: async ({ signal }): Promise<{ name: string | null }> => {
    const response = await sendAsPortal('/portal/sign-in-options', { signal })
    return (await response.json()) as { name: string | null }
  },
})

/** Leaves the page for the identity provider, which sends the browser back to it. */
export function signInAtProvider(): void {
  const here = location.pathname + location.search
  location.assign(`/portal/sign-in?return_to=${encodeURIComponent(here)}`)
}

onSignedOut.run = () => changeSession(null)

export async function signIn(key: string): Promise<void> {
  await callSession('POST', { key })
  changeSession(await api.get('/v1/api-keys/self'))
}

export async function signOut(): Promise<void> {
  await callSession('DELETE')
  changeSession(null)
}

/** Deletes all data that was read in the previous session. */
function changeSession(own: Schemas['OwnApiKey'] | null): void {
  const [name] = sessionQuery.queryKey
  queryClient.setQueryData(sessionQuery.queryKey, own)
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== name })
}

/** Looks up the name and scopes of a key, without signing in with it. */
export async function lookUpKey(key: string): Promise<Schemas['OwnApiKey']> {
  const { origin: baseUrl } = location
  return createLicensingBackend({ baseUrl, apiKey: key, retries: 0 }).get('/v1/api-keys/self')
}

async function callSession(method: 'POST' | 'DELETE', body?: object): Promise<void> {
  const response = await sendAsPortal('/portal/session', {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  }).catch((cause: unknown) => {
    throw new LicensingApiError('unreachable', 0, {}, cause)
  })
  if (response.ok) return
  const problem = (await response.json().catch(() => ({}))) as Record<string, unknown>
  const code = typeof problem['code'] === 'string' ? problem['code'] : 'unexpected_answer'
  throw new LicensingApiError(code, response.status, problem)
}

/** The rights of the key that is signed in. */
export function useSession(): { own: Schemas['OwnApiKey']; can: (scope: Scope) => boolean } {
  const { data } = useQuery(sessionQuery)
  if (!data) throw new Error('useSession outside of a session')
  return { own: data, can: (scope) => data.scopes.includes(scope) }
}
