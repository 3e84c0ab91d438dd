import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { given, membersOf, type PagedList } from './paged-list.ts'

export type Licence = Schemas['Licence']
export type LicenceDetail = Schemas['LicenceDetail']
export type LicenceStatus = Licence['status']
export type Verb = LicenceDetail['allowed'][number]

/** The fields that a vendor gives a licence. The service sets the others. */
export type GivenFields = Omit<
  Licence,
  | 'id'
  | 'key'
  | 'status'
  | 'status_reason'
  | 'plan_id'
  | 'application_id'
  | 'trial'
  | 'created_at'
  | 'updated_at'
>

export type LicenceChange = Partial<
  Omit<GivenFields, 'metadata'> & { metadata: Record<string, string | null> }
>

export const licenceStatuses = membersOf<LicenceStatus>({
  active: true,
  suspended: true,
  revoked: true,
  expired: true,
  retired: true,
  downgraded: true,
})

/** Whether a licence with this status can no longer be changed or paid for. */
export const isOver: Record<LicenceStatus, boolean> = {
  active: false,
  suspended: false,
  expired: false,
  downgraded: false,
  revoked: true,
  retired: true,
}

export interface LicenceFilters {
  status?: LicenceStatus | undefined
  plan?: string | undefined
  trial?: boolean | undefined
  /** Exact pairs, at most three. */
  metadata?: Readonly<Record<string, string>>
}

/** A search returns at most this many licences, the best match first. */
export const MAX_FOUND = 20

export const licenceList = (appId: string, filters: LicenceFilters = {}): PagedList<Licence> => ({
  key: ['licences', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/licences', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})

export const searchQuery = (appId: string, q: string) =>
  queryOptions({
    queryKey: ['search', appId, q],
    queryFn: ({ signal }) =>
      api.get('/v1/apps/{app_id}/search', { path: { app_id: appId }, query: { q }, signal }),
  })

export const licenceQuery = (licenceId: string) =>
  queryOptions({
    queryKey: ['licence', licenceId],
    queryFn: ({ signal }) =>
      api.get('/v1/licences/{licence_id}', { path: { licence_id: licenceId }, signal }),
  })

export type HistoryEntry = Schemas['LicenceHistoryEntry']

/** The newest entry of the history that set the current status; null if there is none. */
export const statusEntryQuery = (licenceId: string) =>
  queryOptions({
    queryKey: ['status entry', licenceId],
    queryFn: async ({ signal }): Promise<HistoryEntry | null> => {
      const request = { path: { licence_id: licenceId }, query: { limit: 200 }, signal }
      for await (const entry of api.rows('/v1/licences/{licence_id}/history', request)) {
        if (entry.from !== entry.to || entry.type === 'suspended') return entry
      }
      return null
    },
  })

export function updateLicence(licenceId: string, body: LicenceChange): Promise<Licence> {
  return api.patch('/v1/licences/{licence_id}', { path: { licence_id: licenceId }, body })
}

export const activationList = (licenceId: string): PagedList<Schemas['LicenceActivation']> => ({
  key: ['activations', licenceId],
  load: (page, signal) =>
    api.get('/v1/licences/{licence_id}/activations', {
      path: { licence_id: licenceId },
      query: page,
      signal,
    }),
})

export const historyList = (licenceId: string): PagedList<HistoryEntry> => ({
  key: ['history', licenceId],
  load: (page, signal) =>
    api.get('/v1/licences/{licence_id}/history', { path: { licence_id: licenceId }, query: page, signal }),
})

export function actOn(licenceId: string, verb: Verb, client = api): Promise<Licence> {
  const request = { path: { licence_id: licenceId } }
  switch (verb) {
    case 'suspend':
      return client.post('/v1/licences/{licence_id}/suspend', request)
    case 'reactivate':
      return client.post('/v1/licences/{licence_id}/reactivate', request)
    case 'revoke':
      return client.post('/v1/licences/{licence_id}/revoke', request)
    case 'retire':
      return client.post('/v1/licences/{licence_id}/retire', request)
  }
}
