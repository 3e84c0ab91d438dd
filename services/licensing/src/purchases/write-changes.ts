import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { insertHistory } from '../lifecycle/history-queries.ts'
import { addToCounts } from '../lifecycle/licence-queries.ts'
import { storeSnapshots } from '../plans/snapshot-queries.ts'
import type { Changes } from './changes.ts'
import { insertMinted, updateLicences } from './changes-queries.ts'
import { insertFacts, insertProvisions, upsertPurchases } from './purchase-queries.ts'

/** Writes, set by set, what has become of licences that the transaction has locked. */
export async function writeChanges(tx: Transaction, changes: Changes): Promise<void> {
  const { minted, licences, purchases, facts, provisions, history, events, counts } = changes
  await storeSnapshots(tx, [...minted, ...purchases.values(), ...facts])
  await insertMinted(tx, minted)
  await updateLicences(tx, [...licences.values()])
  await upsertPurchases(tx, [...purchases.values()])
  await insertFacts(tx, facts)
  await insertProvisions(tx, provisions)
  if (history.length > 0) await insertHistory(tx, history)
  await addToCounts(tx, counts)
  await append(tx, ...events)
}
