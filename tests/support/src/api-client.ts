/** An answer of the REST API. */
export interface ApiAnswer<Body> {
  status: number
  headers: Headers
  /** The JSON of the answer; undefined if it has no body. */
  body: Body
}

export interface ApiRequest {
  /** Sent as JSON. A string or bytes are sent unchanged. */
  body?: unknown
  headers?: Record<string, string>
  /** The API key, by default the client's. Null sends none. */
  key?: string | null
}

type Call = <Body = Record<string, unknown>>(path: string, request?: ApiRequest) => Promise<ApiAnswer<Body>>

/** Calls of the REST API. No status throws an error. */
export interface ApiClient {
  get: Call
  post: Call
  put: Call
  patch: Call
  delete: Call
}

/**
 * A plain client for black-box tests. It sends requests unchanged, and returns status, headers and body of the answer.
 *
 * @param baseUrl URL of the gateway, without a slash at the end
 * @param apiKey sent as bearer token unless a request has another key
 * @example
 * const plan = await api.post<{ id: string }>(`/v1/apps/${appId}/plans`, { body: { name: 'Pro', code: 'pro' } })
 */
export function apiClient(baseUrl: string, apiKey: string): ApiClient {
  const call =
    (method: string): Call =>
    async (path, request = {}) => {
      const { body, headers = {}, key = apiKey } = request
      const raw = body === undefined || typeof body === 'string' || body instanceof Uint8Array
      const response = await fetch(`${baseUrl}${path}`, {
        method,
        redirect: 'manual',
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
      })
      const text = await response.text()
      const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '')
      const parsed: unknown = text === '' ? undefined : isJson ? JSON.parse(text) : text
      return { status: response.status, headers: response.headers, body: parsed as never }
    }
  return {
    get: call('GET'),
    post: call('POST'),
    put: call('PUT'),
    patch: call('PATCH'),
    delete: call('DELETE'),
  }
}

/** The account of a new stack and its application. Throws while they do not exist yet. */
export async function demoAccount(api: ApiClient): Promise<{ accountId: string; appId: string }> {
  const account = await api.get<{ id: string }>('/v1/account')
  const apps = await api.get<{ data: { id: string }[] }>('/v1/apps')
  const app = apps.body.data[0]
  if (account.status !== 200 || app === undefined) throw new Error(`no demo account yet (${account.status})`)
  return { accountId: account.body.id, appId: app.id }
}
