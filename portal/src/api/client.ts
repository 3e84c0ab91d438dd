import { createLicensingBackend } from '@licensing/sdk/backend'

/** Called when the gateway no longer accepts the session. */
export const onSignedOut: { run: () => void } = { run: () => undefined }

/** Sends all requests of the portal. The gateway accepts the session's cookie only together with the header. */
export const sendAsPortal: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('authorization')
  headers.set('x-requested-with', 'portal')
  const response = await fetch(input, { ...init, headers, credentials: 'same-origin', cache: 'no-store' })
  if (response.status === 401) onSignedOut.run()
  return response
}

const connection = { baseUrl: location.origin, apiKey: '', fetch: sendAsPortal }

/** The client of the API with the signed-in key. It does not retry: the page shows an error at once, with a button to try again. */
export const api = createLicensingBackend({ ...connection, retries: 0 })

/** The client for long work. It retries if the service is unavailable for a moment or asks it to wait. */
export const patientApi = createLicensingBackend({ ...connection, retries: 8 })

/** All rows of a list that a quota keeps short. */
export async function allOf<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = []
  for await (const row of rows) all.push(row)
  return all
}
