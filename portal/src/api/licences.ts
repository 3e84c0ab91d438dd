import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { given, type PagedList } from './paged-list.ts'

export type Licence = Schemas['Licence']
export type LicenceDetail = Schemas['LicenceDetail']
export type LicenceStatus = Licence['status']
export type Verb = LicenceDetail['allowed'][number]

const everyStatus: Record<LicenceStatus, true> = {
  active: true,
  suspended: true,
  revoked: true,
  expired: true,
  retired: true,
  downgraded: true,
}
export const licenceStatuses = Object.keys(everyStatus) as LicenceStatus[]

interface LicenceFilters {
  status: LicenceStatus | undefined
  plan: string | undefined
}

export const licenceList = (appId: string, filters: LicenceFilters): PagedList<Licence> => ({
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

export const activationList = (licenceId: string): PagedList<Schemas['LicenceActivation']> => ({
  key: ['activations', licenceId],
  load: (page, signal) =>
    api.get('/v1/licences/{licence_id}/activations', {
      path: { licence_id: licenceId },
      query: page,
      signal,
    }),
})

export const historyList = (licenceId: string): PagedList<Schemas['LicenceHistoryEntry']> => ({
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
