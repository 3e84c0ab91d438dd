/** Calls a JSON API. If the status is not a success, throws an error that contains the answer. */
export async function callJson<Answer>(
  method: 'GET' | 'POST' | 'PUT',
  url: string,
  { apiKey, body }: { apiKey?: string; body?: object } = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${url} answered ${response.status}: ${text}`)
  return JSON.parse(text) as Answer
}
