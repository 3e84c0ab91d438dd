import type { Transaction } from '@licensing/database/connect'
import { refsOf } from '../processors/facts.ts'
import {
  findLinks,
  findSessionsOf,
  findWaitingFacts,
  insertFacts,
  insertLinks,
  linkWaitingFacts,
  lockMerchants,
  markDue,
} from './record-queries.ts'
import type { NewFact, WaitingFact } from './record-queries.ts'

/**
 * Adds facts, each to its purchase as far as that is known: by the session that it names, or by any id of the
 * processor's that another fact of the purchase names too, whichever came first. The purchases are due.
 *
 * @returns the purchases
 */
export async function recordFacts(tx: Transaction, facts: NewFact[]): Promise<string[]> {
  if (facts.length === 0) return []
  await lockMerchants(
    tx,
    facts.map((fact) => fact.merchant),
  )
  const links = new Links()
  const refs = facts.flatMap(({ merchant, fact }) => refsOf(fact).map((ref) => ({ merchant, ref })))
  const named = facts.flatMap(({ merchant, fact: { sessionId } }) =>
    sessionId === undefined ? [] : [{ merchant, sessionId }],
  )
  const [known, sessions] = await Promise.all([
    findLinks(tx, refs),
    named.length === 0 ? new Set<string>() : findSessionsOf(tx, named),
  ])
  for (const { merchant, ref, session_id: sessionId } of known) links.know(merchant, ref, sessionId)
  const own = facts.map((each) => {
    const { sessionId } = each.fact
    return {
      ...each,
      refs: refsOf(each.fact),
      sessionId: sessionId !== undefined && sessions.has(sessionId) ? sessionId : undefined,
    }
  })
  links.spread(own)
  const waiting = await adoptWaiting(tx, links, own)
  await insertLinks(tx, links.added)
  await insertFacts(tx, own)
  const found = [...own, ...waiting].map((each) => each.sessionId).filter((id) => id !== undefined)
  await markDue(tx, found)
  return [...new Set(found)]
}

type Linkable = Pick<WaitingFact, 'merchant' | 'refs'> & { sessionId: string | undefined }

/** Facts that came before it was known whose they are. They may name further ids, of which others wait. */
async function adoptWaiting(
  tx: Transaction,
  links: Links,
  own: Linkable[],
): Promise<(Linkable & { position: bigint })[]> {
  const adopted: (Linkable & { position: bigint })[] = []
  for (let from = 0; from < links.added.length;) {
    const refs = links.added.slice(from).map((link) => link.ref)
    from = links.added.length
    const news = (await findWaitingFacts(tx, refs))
      .filter((row) => !adopted.some((each) => each.position === row.position))
      .map((row) => ({ ...row, sessionId: undefined }))
    links.spread([...own, ...news])
    adopted.push(...news)
  }
  const linked = adopted.filter((row) => row.sessionId !== undefined)
  if (linked.length > 0) {
    await linkWaitingFacts(
      tx,
      linked.map(({ position, sessionId }) => ({ position, sessionId: sessionId! })),
    )
  }
  return linked
}

/** Which of the processor's ids are of which session. */
class Links {
  readonly added: { merchant: string; ref: string; session_id: string }[] = []
  readonly #known = new Map<string, string>()

  know(merchant: string, ref: string, sessionId: string): void {
    this.#known.set(`${merchant} ${ref}`, sessionId)
  }

  /** Each fact that names something known makes all else that it names known. */
  spread(facts: Linkable[]): void {
    for (let changed = true; changed;) {
      changed = false
      for (const fact of facts) {
        fact.sessionId ??= this.#sessionOf(fact)
        if (fact.sessionId !== undefined && this.#learn(fact, fact.sessionId)) changed = true
      }
    }
  }

  #sessionOf({ merchant, refs }: Linkable): string | undefined {
    return refs.map((ref) => this.#known.get(`${merchant} ${ref}`)).find((id) => id !== undefined)
  }

  #learn({ merchant, refs }: Linkable, sessionId: string): boolean {
    const news = refs.filter((ref) => !this.#known.has(`${merchant} ${ref}`))
    for (const ref of news) {
      this.know(merchant, ref, sessionId)
      this.added.push({ merchant, ref, session_id: sessionId })
    }
    return news.length > 0
  }
}

/** A checkout has been opened: what its events said before that was committed is found. */
export async function linkCheckout(
  tx: Transaction,
  merchant: string,
  checkoutRef: string,
  sessionId: string,
): Promise<void> {
  await lockMerchants(tx, [merchant])
  const links = new Links()
  const opened = { merchant, refs: [checkoutRef], sessionId }
  links.spread([opened])
  const waiting = await adoptWaiting(tx, links, [opened])
  await insertLinks(tx, links.added)
  if (waiting.length > 0) await markDue(tx, [sessionId])
}
