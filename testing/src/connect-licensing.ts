import { callJson } from './api.ts'
import { openInbox } from './event-inbox.ts'
import type { EventInbox } from './event-inbox.ts'
import { openSimulator } from './simulator.ts'
import type { Simulator } from './simulator.ts'

/** A licensing service and all that a test does with it. */
export interface Licensing {
  /** Of the REST API, without a slash at the end. */
  readonly url: string
  /** Has all four scopes. */
  readonly apiKey: string
  readonly appId: string
  readonly accountId: string
  /** Of the application: what `LicenceClient` takes as `rootKey`. */
  readonly rootKey: string
  readonly simulator: Simulator
  readonly events: EventInbox
}

export interface Address {
  readonly url: string
  readonly apiKey: string
  /** Where the simulated processor is: `LICENSING_SIMULATOR_URL` of `npm start`. */
  readonly simulatorUrl: string
}

/**
 * Uses a service that runs already, such as that of `npm start`. Its account is connected to the simulated processor
 * where it is not yet.
 */
export async function connectLicensing({ url, apiKey, simulatorUrl }: Address): Promise<Licensing> {
  const self = await callJson<{ account_id: string; app_id: string | null }>(
    'GET',
    `${url}/v1/api-keys/self`,
    {
      apiKey,
    },
  )
  const apps = await callJson<{ data: { id: string; root_key: string }[] }>('GET', `${url}/v1/apps`, {
    apiKey,
  })
  const app = apps.data.find(({ id }) => id === self.app_id) ?? apps.data.at(-1)
  if (!app) throw new Error('the account has no application')
  const body = { processor: 'stripe', connected_account: self.account_id.replace('acct_', 'acct_testing_') }
  await callJson('GET', `${url}/v1/processor`, { apiKey }).catch(() =>
    callJson('PUT', `${url}/v1/processor`, { apiKey, body }),
  )
  const { next_after: latest } = await callJson<{ next_after: number }>(
    'GET',
    `${url}/v1/events?after=latest`,
    {
      apiKey,
    },
  )
  return {
    url,
    apiKey,
    appId: app.id,
    accountId: self.account_id,
    rootKey: app.root_key,
    simulator: openSimulator(simulatorUrl.replace(/\/+$/, '')),
    events: openInbox(url, apiKey, latest),
  }
}
