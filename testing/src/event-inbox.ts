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

/**
 * The account's events, with the envelopes of webhooks. They are read from the events feed, so no receiver is needed.
 */
export interface EventInbox {
  /**
   * Returns the next event of a type, and waits for it if necessary. Each event is returned once.
   *
   * @param matches selects the event, for example `(event) => event.data.object.licence_id === licence.id`
   * @throws after `timeoutMs` (30 s), with the types that did arrive
   */
  next(
    type: string,
    matches?: (event: ReceivedEvent) => boolean,
    options?: { timeoutMs?: number },
  ): Promise<ReceivedEvent>
  /** All events so far, in order, including events that `next` has returned. */
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
  // Concurrent calls share one read, because two reads would add each event twice.
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
