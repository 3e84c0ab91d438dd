import type { Transaction } from '@licensing/database/connect'
import { refsOf } from '../processor/facts.ts'
import {
  findLinks,
  findSessionsOf,
  findWaitingFacts,
  insertFacts,
  insertLinks,
  linkWaitingFacts,
  lockMerchants,
  markDue,
} from './fact-queries.ts'
import type { Link, NewFact, WaitingFact } from './fact-queries.ts'

/**
 * Inserts facts and marks their purchases as due. A fact belongs to the purchase of the session that it contains, or of
 * any id that another fact of the purchase contains too. It does not matter which fact came first.
 */
export async function recordFacts(tx: Transaction, facts: NewFact[]): Promise<void> {
  if (facts.length === 0) return
  const merchants = facts.map((fact) => fact.merchant)
  await lockMerchants(tx, merchants)
  const all = facts.map((each) => ({ ...each, refs: refsOf(each.fact) }))
  const refs = all.flatMap(({ merchant, refs }) => refs.map((ref) => ({ merchant, ref })))
  const named = facts.flatMap(({ merchant, fact: { sessionId: id } }) => (id ? [{ merchant, id }] : []))
  const [known, sessions] = await Promise.all([findLinks(tx, refs), findSessionsOf(tx, named)])
  const assigned = all.map((each) => {
    const { sessionId } = each.fact
    return { ...each, sessionId: sessionId !== undefined && sessions.has(sessionId) ? sessionId : undefined }
  })
  const linked = await link(tx, new LinkedRefs(known), assigned)
  await insertFacts(tx, assigned)
  await markDue(tx, purchasesOf([...assigned, ...linked]))
}

/** Links facts about a checkout that arrived before the checkout was committed. */
export async function linkCheckout(
  tx: Transaction,
  merchant: string,
  checkoutRef: string,
  sessionId: string,
): Promise<void> {
  await lockMerchants(tx, [merchant])
  const linked = await link(tx, new LinkedRefs(), [{ merchant, refs: [checkoutRef], sessionId }])
  await markDue(tx, purchasesOf(linked))
}

type Linkable = Pick<WaitingFact, 'merchant' | 'refs'> & { sessionId: string | undefined }

function purchasesOf(facts: Linkable[]): string[] {
  return facts.map((fact) => fact.sessionId).filter((id) => id !== undefined)
}

/**
 * Finds the purchases of these facts, and of waiting facts that share an id with them. The waiting facts may contain further
 * ids that other facts wait for.
 *
 * @returns facts that had waited
 */
async function link(tx: Transaction, links: LinkedRefs, assigned: Linkable[]): Promise<Linkable[]> {
  const found: (Linkable & { position: bigint })[] = []
  links.linkAll(assigned)
  for (let from = 0; from < links.added.length;) {
    const refs = links.added.slice(from).map((each) => each.ref)
    from = links.added.length
    const waiting = await findWaitingFacts(tx, refs)
    const newRows = waiting.filter((row) => !found.some((each) => each.position === row.position))
    found.push(...newRows.map((row) => ({ ...row, sessionId: undefined })))
    links.linkAll([...assigned, ...found])
  }
  const linked = found.filter((row) => row.sessionId !== undefined)
  const rows = linked.map(({ position, sessionId }) => ({ position, session_id: sessionId }))
  await linkWaitingFacts(tx, rows)
  await insertLinks(tx, links.added)
  return linked
}

/** The processor's ids whose session is known. */
class LinkedRefs {
  readonly added: Link[] = []
  readonly #known = new Map<string, string>()

  constructor(known: Link[] = []) {
    for (const each of known) this.#remember(each)
  }

  #remember({ merchant, ref, session_id: sessionId }: Link): void {
    this.#known.set(`${merchant} ${ref}`, sessionId)
  }

  /**
   * If an id of a fact is known, all its other ids belong to the same session. Repeats until no other id becomes known.
   */
  linkAll(facts: Linkable[]): void {
    for (let changed = true; changed;) {
      changed = false
      for (const fact of facts) {
        fact.sessionId ??= this.#sessionOf(fact)
        if (fact.sessionId !== undefined && this.#addRefs(fact, fact.sessionId)) changed = true
      }
    }
  }

  #sessionOf({ merchant, refs }: Linkable): string | undefined {
    return refs.map((ref) => this.#known.get(`${merchant} ${ref}`)).find((id) => id !== undefined)
  }

  #addRefs({ merchant, refs }: Linkable, sessionId: string): boolean {
    const newRefs = refs.filter((ref) => !this.#known.has(`${merchant} ${ref}`))
    const newLinks = newRefs.map((ref) => ({ merchant, ref, session_id: sessionId }))
    for (const each of newLinks) this.#remember(each)
    this.added.push(...newLinks)
    return newRefs.length > 0
  }
}
