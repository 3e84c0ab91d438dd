import type { World } from './world.ts'

/** What a customer, a bank or time does at the processor; undefined where it was refused or did not answer. */
export async function atProcessor(
  { stack }: World,
  action: string,
  body: object,
): Promise<Record<string, unknown> | undefined> {
  try {
    const response = await fetch(`${stack.processor.url}/_sim/${action}`, {
      method: 'POST',
      signal: AbortSignal.timeout(20_000),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const answer = (await response.json()) as Record<string, unknown>
    return response.status === 200 ? answer : undefined
  } catch {
    return undefined
  }
}
