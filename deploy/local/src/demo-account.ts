import { setTimeout as sleep } from 'node:timers/promises'

export interface DemoAccount {
  accountId: string
  appId: string
}

/**
 * The account that a key belongs to and its oldest application, as the gateway tells them.
 *
 * @param gateway base URL, without a slash at the end
 * @throws when the gateway does not answer so within 30 s; says what it answered
 */
export async function findDemoAccount(
  gateway: string,
  key: string,
  signal: AbortSignal,
): Promise<DemoAccount> {
  const get = async (path: string): Promise<unknown> => {
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${gateway}${path}`, { headers, signal: AbortSignal.timeout(5_000) })
    const text = await response.text()
    if (!response.ok) throw new Error(`GET ${path} answered ${response.status}: ${text.slice(0, 300)}`)
    return JSON.parse(text)
  }
  let failure: unknown
  for (const until = Date.now() + 30_000; Date.now() < until; await sleep(50)) {
    signal.throwIfAborted()
    try {
      const account = (await get('/v1/account')) as { id: string }
      const appId = await oldestApp(get)
      if (appId !== undefined) return { accountId: account.id, appId }
      failure = new Error('the account has no application')
    } catch (error) {
      failure = error
    }
  }
  const { message } = failure as Error
  throw new Error(`the gateway does not know the demo account: ${message}`, { cause: failure })
}

/** Pages are newest first. */
async function oldestApp(get: (path: string) => Promise<unknown>): Promise<string | undefined> {
  let oldest: string | undefined
  for (let cursor: string | null = ''; cursor !== null;) {
    const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = (await get(`/v1/apps?limit=200${query}`)) as {
      data: { id: string }[]
      next_cursor: string | null
    }
    oldest = page.data.at(-1)?.id ?? oldest
    cursor = page.next_cursor
  }
  return oldest
}
