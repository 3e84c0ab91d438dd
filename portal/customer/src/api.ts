import type { Schemas } from '@licensing/sdk/backend'

export type Licence = Schemas['CustomerLicence']
export type Machine = Licence['activations'][number]

export interface App {
  name: string
  support_url: string | null
  accent_color: string | null
}

/** An answer that is no success, by the code of the error; `offline` if there was none. */
export class Refusal extends Error {
  readonly code: string
  /** The invalid field, for `validation_failed`. */
  readonly pointer: string | undefined
  readonly retrySeconds: number

  constructor(code: string, pointer?: string, retrySeconds = 1) {
    super(code)
    this.code = code
    this.pointer = pointer
    this.retrySeconds = retrySeconds
  }
}

const timeoutMs = 30_000

/** @throws Refusal */
export async function call<Answer>(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  { token, body }: { token?: string; body?: object } = {},
): Promise<Answer> {
  let answer: Response
  try {
    answer = await fetch(path, {
      method,
      cache: 'no-store',
      credentials: 'omit',
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
  } catch {
    throw new Refusal('offline')
  }
  if (answer.status === 204) return undefined as Answer
  const json = (await answer.json().catch(() => undefined)) as
    { code?: string; errors?: { pointer: string }[] } | undefined
  if (answer.ok && json !== undefined) return json as Answer
  const seconds = Number(answer.headers.get('retry-after'))
  throw new Refusal(json?.code ?? 'unavailable', json?.errors?.[0]?.pointer, Math.max(1, seconds || 1))
}
