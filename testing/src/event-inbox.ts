import { setTimeout as pause } from 'node:timers/promises'
import { callJson } from './api.ts'

/** An event, with the envelope that a webhook has. */
export interface ReceivedEvent {
  readonly id: string
  readonly type: string
  readonly api_version: string
  readonly created_at: string
  readonly sequence: number
  readonly account_id: string
  readonly application_id: string
  readonly data: { readonly object: Readonly<Record<string, unknown>> }
  readonly previous: Readonly<Record<string, unknown>> | null
}

/** The account's events, as its webhook endpoints receive them; read from the feed, so that no receiver is needed. */
export interface EventInbox {
  /**
   * The next event of a type, each given once; waits for one that has not happened yet.
   *
   * @param matches chooses among them, such as `(event) => event.data.object.licence_id === licence.id`
   * @throws after `timeoutMs` (30 s), with the types that did arrive
   */
  next(
    type: string,
    matches?: (event: ReceivedEvent) => boolean,
    options?: { timeoutMs?: number },
  ): Promise<ReceivedEvent>
  /** All events so far, in order, those given by `next` too. */
  all(): Promise<readonly ReceivedEvent[]>
}

const POLL_MS = 100

export function openInbox(url: string, apiKey: string, start: number): EventInbox {
  const events: ReceivedEvent[] = []
  const given = new Set<string>()
  let after = start
  let reading: Promise<void> | undefined

  async function read(): Promise<void> {
    const page = await callJson<{ data: ReceivedEvent[]; next_after: number }>(
      'GET',
      `${url}/v1/events?after=${after}&limit=200`,
      { apiKey },
    )
    events.push(...page.data)
    after = page.next_after
    if (page.data.length > 0) await read()
  }
  // Of two that wait one reads, or each event would be there twice.
  const refresh = () => (reading ??= read().finally(() => (reading = undefined)))

  return {
    async next(type, matches = () => true, { timeoutMs = 30_000 } = {}) {
      for (const end = Date.now() + timeoutMs; ; await pause(POLL_MS)) {
        await refresh()
        const found = events.find((event) => event.type === type && !given.has(event.id) && matches(event))
        if (found) {
          given.add(found.id)
          return found
        }
        if (Date.now() < end) continue
        const types = events.map((event) => event.type).join(', ')
        throw new Error(`no ${type} within ${timeoutMs / 1000} s; there were: ${types || 'no events'}`)
      }
    },
    async all() {
      await refresh()
      return [...events]
    },
  }
}
