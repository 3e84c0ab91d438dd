import type { ServiceClient } from '@licensing/grpc/client'
import type { Callee } from '@licensing/proto/callers'
import { consumersOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { MoveService } from '@licensing/proto/moves'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, UsageError } from './command.ts'
import type { AdminDependencies, Command } from './command.ts'
import { reEncrypt } from './secrets.ts'

const services = ['catalog', 'licensing', 'billing', 'notifier'] as const satisfies Callee[]
const callMs = 55_000
// All replicas know of a move after 2.5 seconds. A call that has arrived before that takes a moment.
const announcedMs = 3_500
const pollMs = 100
const drainMs = 120_000

type Cell = Record<Callee, ServiceClient<typeof MoveService>>
interface Cells {
  here: Cell
  there: Cell
  accountId: string
}

/** `licensing-admin move-account`: moves an account to another cell. docs/operations/scaling.md describes the steps. */
export const moveAccount: Command = {
  synopsis: '--account ACCOUNT_ID [--address URL | --abort | --forget]',
  summary:
    'moves an account to the cell of TO_CATALOG_ADDRESS, TO_LICENSING_ADDRESS, TO_BILLING_ADDRESS, TO_NOTIFIER_ADDRESS and TO_CALL_KEYS, whose public address is URL; run it again if it was interrupted; --abort returns the account, until it has moved; --forget deletes its rows here after it has moved',
  options: { account: { required: true }, address: { required: false } },
  flags: ['abort', 'forget'],
  async run(admin, { account: accountId = '', address, abort, forget }) {
    if ([address, abort, forget].filter((each) => each !== undefined).length !== 1) {
      throw new UsageError('give one of --address, --abort, --forget')
    }
    const cellOf = (callsOf: AdminDependencies['callsOf']) =>
      Object.fromEntries(services.map((name) => [name, callsOf(name, MoveService)])) as Cell
    const cells = { here: cellOf(admin.callsOf), there: cellOf(admin.callsThere), accountId }
    if (abort !== undefined) return [await returned(cells)]
    if (forget !== undefined) return [await forgotten(cells)]
    return [await moved(admin, cells, publicAddress(address!))]
  },
}

function publicAddress(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new UsageError(`--address must be the public URL of the other cell's gateway, not ${text}`)
  }
  return text.replace(/\/$/, '')
}

async function moved(admin: AdminDependencies, cells: Cells, address: string): Promise<object> {
  const { here, there, accountId } = cells
  const startedMs = Date.now()
  const before = await here.catalog.getMove({ accountId })
  if (before.state === 'forgotten') throw new Refusal(`${accountId} has moved to ${before.address}`)
  if (before.state !== 'moved') await leave(cells)
  const rows = await copy(cells)
  // Rows that were encrypted with a key that the other cell does not have are found here.
  if (rows > 0) await reEncrypt.run({ ...admin, callsOf: admin.callsThere }, {})
  // Until this call the account can return; from this call on it is in the other cell.
  await here.catalog.changeMove({ accountId, state: 'moved', address })
  for (const name of services) await here[name].changeMove({ accountId, state: 'moved', address })
  // Catalog is first: once the account is open there, no other run of this command can begin to copy it again.
  for (const name of services) await there[name].changeMove({ accountId, state: '' })
  return { account_id: accountId, address, rows, seconds: (Date.now() - startedMs) / 1000 }
}

/** Closes the account, service by service, so that each has consumed the events of those before it. */
async function leave(cells: Cells): Promise<void> {
  const { here, accountId } = cells
  const { applicationIds } = await here.catalog.changeMove({ accountId, state: 'leaving' })
  for (const name of services) await here[name].changeMove({ accountId, state: 'leaving', applicationIds })
  await sleep(announcedMs)
  const fence = (name: Callee, exceptTables: string[] = []) =>
    here[name].fence({ accountId, exceptTables }, { timeoutMs: callMs })
  // Catalog keeps the entries of the audit log of all services.
  await fence('catalog', ['audit_log'])
  await drained(cells, 'catalog')
  await fence('licensing')
  await fence('billing')
  await drained(cells, 'licensing')
  await drained(cells, 'billing')
  await quiet(cells, 'notifier')
  await fence('notifier')
  await drained(cells, 'notifier')
  await fence('catalog')
}

/** Waits until the account's events of a service have no effects left to have. */
async function drained(cells: Cells, source: Source): Promise<void> {
  const { here, accountId } = cells
  const newest = await quiet(cells, source)
  for (const consumer of consumersOf[source]) {
    await eventually(`${consumer} has not processed the events of ${source}`, async () => {
      const { hasConsumed, deadLetters } = await here[consumer].hasConsumed({ accountId, source, ...newest })
      if (deadLetters > 0) {
        throw new Refusal(
          `${consumer} could not process ${deadLetters} events of ${accountId}: licensing-admin dead-letters lists them`,
        )
      }
      return hasConsumed ? true : undefined
    })
  }
}

/** Waits until nothing of the account is under way. @returns the newest batch of its events */
async function quiet(
  { here, accountId }: Cells,
  name: Callee,
): Promise<{ partition: number; epoch: bigint; number: bigint }> {
  return eventually(`${name} still works for ${accountId}`, async () => {
    const { isBusy, partition, epoch, number } = await here[name].getOutbox({ accountId })
    return isBusy ? undefined : { partition, epoch, number }
  })
}

async function eventually<T>(what: string, find: () => Promise<T | undefined>): Promise<T> {
  const untilMs = Date.now() + drainMs
  for (;;) {
    const found = await find()
    if (found !== undefined) return found
    if (Date.now() > untilMs) throw new Refusal(`${what}: run the command again, or with --abort`)
    await sleep(pollMs)
  }
}

/** Copies the rows of each service that the other cell does not have yet. @returns how many pages */
async function copy({ here, there, accountId }: Cells): Promise<number> {
  const attempt = randomUUID()
  const { state, applicationIds } = await here.catalog.getMove({ accountId })
  const copyOf = async (name: Callee): Promise<number> => {
    const found = await there[name].getMove({ accountId })
    // The rows here do not change any more.
    if (state === 'moved' && (found.state === '' || found.state === 'arrived')) return 0
    await there[name].changeMove(
      { accountId, state: 'arriving', applicationIds, attempt },
      { timeoutMs: callMs },
    )
    let rows = 0
    let cursor = ''
    do {
      const page = await here[name].exportRows({ accountId, cursor }, { timeoutMs: callMs })
      if (page.count > 0) {
        await there[name].importRows(
          { accountId, table: page.table, rows: page.rows, attempt },
          { timeoutMs: callMs },
        )
      }
      rows += page.count
      cursor = page.next
    } while (cursor !== '')
    await there[name].changeMove({ accountId, state: 'arrived', attempt })
    return rows
  }
  // Catalog knows whether the account may arrive.
  const first = await copyOf('catalog')
  const others = await Promise.all((['licensing', 'billing', 'notifier'] as const).map(copyOf))
  return others.reduce((sum, rows) => sum + rows, first)
}

async function returned({ here, there, accountId }: Cells): Promise<object> {
  const { state } = await here.catalog.getMove({ accountId })
  if (state === 'moved' || state === 'forgotten') {
    throw new Refusal(`${accountId} has moved: it cannot return, only move again from the other cell`)
  }
  // From now on no other run of this command can complete the move.
  if (state === 'leaving') await here.catalog.changeMove({ accountId, state: 'returning' })
  if (state !== '') {
    for (const name of services.toReversed()) {
      const found = await there[name].getMove({ accountId })
      if (found.state === '') continue
      await there[name].changeMove({ accountId, state: 'forgotten' }, { timeoutMs: callMs })
      await there[name].changeMove({ accountId, state: '' })
    }
  }
  for (const name of services.toReversed()) {
    const found = await here[name].getMove({ accountId })
    if (found.state === 'leaving') await here[name].changeMove({ accountId, state: 'returning' })
    if (found.state !== '') await here[name].changeMove({ accountId, state: '' }, { timeoutMs: callMs })
  }
  return { account_id: accountId, state: 'returned' }
}

async function forgotten({ here, there, accountId }: Cells): Promise<object> {
  for (const name of services) {
    const { state } = await there[name].getMove({ accountId })
    if (state !== '') throw new Refusal(`${accountId} is ${state} in the other cell: complete its move first`)
  }
  for (const name of services.toReversed()) {
    await here[name].changeMove({ accountId, state: 'forgotten' }, { timeoutMs: callMs })
  }
  return { account_id: accountId, state: 'forgotten' }
}
