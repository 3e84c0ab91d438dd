import type { Story } from './story.ts'

/**
 * Failed payments of the subscription in a row, where they come to `most`: since the last invoice that was paid, each
 * invoice counts as often as it was tried. A repeated event, or a try by hand, repeats a count and adds nothing; a
 * higher count tells of those between that were missed.
 *
 * @returns the invoice by which it came to `most`, which names the streak, and when it did
 */
export function failureStreak(story: Story, most: number): { streak: string; at: Date } | undefined {
  const since = story.invoices.at(-1)?.paid_at ?? new Date(0)
  const paid = new Set(story.invoices.map((invoice) => invoice.invoice_ref))
  const before = new Map<string, number>()
  const counted = new Map<string, number>()
  for (const failure of story.failures) {
    if (paid.has(failure.invoice_ref)) continue
    const times = failure.failed_at < since ? before : counted
    times.set(failure.invoice_ref, Math.max(times.get(failure.invoice_ref) ?? 0, failure.attempt))
    if (inARow(counted, before) >= most) return { streak: failure.invoice_ref, at: failure.failed_at }
  }
  return undefined
}

function inARow(counted: Map<string, number>, before: Map<string, number>): number {
  let total = 0
  for (const [invoice, attempt] of counted) total += Math.max(0, attempt - (before.get(invoice) ?? 0))
  return total
}
