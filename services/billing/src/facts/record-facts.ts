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
  const linked = await link(tx, known, assigned)
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
  const linked = await link(tx, [], [{ merchant, refs: [checkoutRef], sessionId }])
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
 * @param known links of the facts' ids
 * @returns facts that had waited
 */
async function link(tx: Transaction, known: Link[], assigned: Linkable[]): Promise<Linkable[]> {
  const nameOf = (merchant: string, ref: string) => `${merchant} ${ref}`
  const sessions = new Map(known.map((each) => [nameOf(each.merchant, each.ref), each.session_id]))
  const added: Link[] = []
  // If an id of a fact is known, all its other ids belong to the same session. Repeats until no other id becomes known.
  const linkAll = (facts: Linkable[]) => {
    for (let before = -1; before < added.length;) {
      before = added.length
      for (const fact of facts) {
        const { merchant, refs } = fact
        const unknown = refs.filter((ref) => !sessions.has(nameOf(merchant, ref)))
        fact.sessionId ??= refs
          .map((ref) => sessions.get(nameOf(merchant, ref)))
          .find((id) => id !== undefined)
        if (fact.sessionId === undefined) continue
        for (const ref of unknown) {
          sessions.set(nameOf(merchant, ref), fact.sessionId)
          added.push({ merchant, ref, session_id: fact.sessionId })
        }
      }
    }
  }
  const found: (Linkable & { position: bigint })[] = []
  linkAll(assigned)
  for (let from = 0; from < added.length;) {
    const refs = added.slice(from).map((each) => each.ref)
    from = added.length
    const waiting = await findWaitingFacts(tx, refs)
    const newRows = waiting.filter((row) => !found.some((each) => each.position === row.position))
    found.push(...newRows.map((row) => ({ ...row, sessionId: undefined })))
    linkAll([...assigned, ...found])
  }
  const linked = found.filter((row) => row.sessionId !== undefined)
  const rows = linked.map(({ position, sessionId }) => ({ position, session_id: sessionId }))
  await linkWaitingFacts(tx, rows)
  await insertLinks(tx, added)
  return linked
}
