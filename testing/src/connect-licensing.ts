import { callJson } from './api.ts'
import { openInbox } from './event-inbox.ts'
import type { EventInbox } from './event-inbox.ts'
import { openSimulator } from './simulator.ts'
import type { Simulator } from './simulator.ts'

/** A licensing service, and the tools that a test needs. */
export interface Licensing {
  /** URL of the REST API, without a slash at the end. */
  readonly url: string
  /** A key with all four scopes. */
  readonly apiKey: string
  readonly appId: string
  readonly accountId: string
  /** The root key of the application, for the option `rootKey` of `LicenceClient`. */
  readonly rootKey: string
  readonly simulator: Simulator
  readonly events: EventInbox
}

export interface Address {
  readonly url: string
  readonly apiKey: string
  /** The address of the simulated processor: `LICENSING_SIMULATOR_URL` of `npm start`. */
  readonly simulatorUrl: string
}

/**
 * Uses a service that is already running, such as `npm start`. Connects its account to the simulated processor if it
 * is not connected yet.
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
