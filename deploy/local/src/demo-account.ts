import { setTimeout as sleep } from 'node:timers/promises'

export interface DemoAccount {
  accountId: string
  appId: string
}

const refusedMs = 30_000

/**
 * Asks the gateway for the account of a key and its oldest application. Asks again while the gateway is busy or unavailable.
 *
 * @param gateway base URL, without a slash at the end
 * @throws Error with the gateway's answer, if it has refused the key for 30 s
 */
export async function findDemoAccount(
  gateway: string,
  key: string,
  signal: AbortSignal,
): Promise<DemoAccount> {
  const get = async (path: string): Promise<unknown> => {
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${gateway}${path}`, { headers, signal: AbortSignal.timeout(30_000) })
    const text = await response.text()
    if (!response.ok) {
      const error = new Error(`GET ${path} answered ${response.status}: ${text.slice(0, 300)}`)
      throw Object.assign(error, { isRefusal: response.status < 500 && response.status !== 429 })
    }
    return JSON.parse(text)
  }
  let refusedSince: number | undefined
  for (; ; await sleep(50)) {
    signal.throwIfAborted()
    try {
      const app = await oldestApp(get)
      if (app) return { accountId: app.account_id, appId: app.id }
      throw Object.assign(new Error('the account has no application'), { isRefusal: true })
    } catch (error) {
      const { message, isRefusal } = error as Error & { isRefusal?: boolean }
      refusedSince = isRefusal ? (refusedSince ?? Date.now()) : undefined
      if (refusedSince === undefined || Date.now() - refusedSince < refusedMs) continue
      throw new Error(`the gateway does not know the demo account: ${message}`, { cause: error })
    }
  }
}

interface App {
  id: string
  account_id: string
}

/** Pages are newest first. */
async function oldestApp(get: (path: string) => Promise<unknown>): Promise<App | undefined> {
  let oldest: App | undefined
  for (let cursor: string | null = ''; cursor !== null;) {
    const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = (await get(`/v1/apps?limit=200${query}`)) as { data: App[]; next_cursor: string | null }
    oldest = page.data.at(-1) ?? oldest
    cursor = page.next_cursor
  }
  return oldest
}
