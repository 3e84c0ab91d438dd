import { eventually } from '@licensing/test-support/poll'
import type { ApiRequest } from '@licensing/test-support/api-client'
import { givenStudio } from './section-14.ts'
import { expect } from 'vitest'
import { expectStatus } from './vendor.ts'
import type { Grant, Vendor } from './vendor.ts'

export interface Link {
  url: string | null
  expires_at: string
}

interface CustomerLicence {
  status: string
  activations: { id: string }[]
  activations_total: number
  frees_left: number
  offline_days: number
  subscription: { renews_on: string | null; cancels_on: string | null } | null
  [field: string]: unknown
}

/** A studio with calls of its customers. */
export async function givenCustomers() {
  const studio = await givenStudio()
  const { api, app, activate } = studio
  const { id: planId } = await studio.plan()
  const sessionsOf = ({ id }: { id: string }) => `/v1/licences/${id}/customer-sessions`
  const link = (licence: { id: string }, body?: unknown, request: ApiRequest = {}) =>
    api.post<Link>(sessionsOf(licence), { ...request, ...(body !== undefined && { body }) })

  /** The calls of a customer with this token. */
  function customer(token: string | null, { api }: Pick<Vendor, 'api'> = studio) {
    const get = () => api.get<CustomerLicence>('/v1/customer/licence', { key: token })
    return {
      token,
      get,
      licence: async () => {
        const answer = await get()
        expectStatus(answer, 200)
        return answer.body
      },
      remove: (id: string) => api.delete(`/v1/customer/activations/${id}`, { key: token }),
      offline: (body: object) =>
        api.post<Grant & { file: string }>('/v1/customer/offline-activations', { key: token, body }),
      manage: () => api.post<{ url: string }>('/v1/customer/subscription-sessions', { key: token }),
    }
  }

  async function linked(licence: { id: string }, body?: object) {
    const answer = await link(licence, body)
    expectStatus(answer, 201)
    return customer(answer.body.url!.split('#')[1]!)
  }

  const setPage = (customer_page: unknown, path = app) => api.patch(path, { body: { customer_page } })

  /** An application whose page has these settings. They count when this returns. */
  async function givenPage(page: object) {
    const own = await givenStudio(studio.market)
    const answer = await setPage(page, own.app)
    expectStatus(answer, 200)
    const plan = await own.plan()
    const { frees_per_day, offline_days } = answer.body['customer_page'] as CustomerLicence
    const visitor = await linked(await own.issue(plan.id))
    await eventually(
      async () => expect(await visitor.licence()).toMatchObject({ frees_left: frees_per_day, offline_days }),
      { timeoutMs: 5_000 },
    )
    return { ...own, planId: plan.id }
  }

  const activated = async (licence: { key: string }, fields: object = {}) => {
    const answer = await activate(licence, { ...fields })
    expectStatus(answer, 201)
    return answer.body
  }
  return { ...studio, studio, planId, sessionsOf, link, customer, linked, setPage, givenPage, activated }
}
