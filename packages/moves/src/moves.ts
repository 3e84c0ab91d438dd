import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { brokenConstraint } from '@licensing/database/problems'
import { transaction, withoutTimeLimit } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import { implement } from '@licensing/grpc/server'
import type { ServeOptions } from '@licensing/grpc/server'
import type { Logger } from '@licensing/process/log'
import { readMember } from '@licensing/proto/closed-sets'
import type { MoveState } from '@licensing/proto/closed-sets'
import { MoveService } from '@licensing/proto/moves'
import type { AccountTable } from './account-tables.ts'
import { deleteRows, exportRows, hasRows, importRows, isBusy } from './account-row-queries.ts'
import { fence, unfence } from './fence-queries.ts'
import {
  deleteMove,
  findConsumed,
  findMove,
  findNewest,
  listMoves,
  lockMove,
  saveMove,
} from './move-queries.ts'
import type { Move } from './move-queries.ts'

export interface MoveOptions {
  sql: Database
  log: Logger
  tables: readonly AccountTable[]
  /** Statements that find what of the account `$1` is under way and ends soon. */
  underWay?: string[]
  /** Only catalog knows which accounts exist: finds the applications of an account, or undefined if there is no such account. */
  findApplications?: (accountId: string) => Promise<string[] | undefined>
  /** Wakes the background work that empties transient tables. */
  wake?: () => void
  /** Prepares the tables for rows that arrive. */
  prepare?: (page: { table: string; rows: string }) => Promise<void>
}

export interface Moves {
  service: ServeOptions['services'][number]
  /** Refuses calls about an account or application that moves or has moved. @throws ServiceError `unavailable`, `account_moved` */
  check: (accountOrApplicationId: string) => void
  stop(): Promise<void>
}

// `licensing-admin move-account` waits longer between announcing a move and what follows.
const pollMs = 2_500

/** The states from which a state is reached; `none`: the service has no row of the account. */
const before: Record<MoveState | '', readonly (MoveState | '')[]> = {
  leaving: [''],
  returning: ['leaving'],
  moved: ['leaving'],
  forgotten: ['moved', 'arriving', 'arrived'],
  arriving: ['', 'moved', 'forgotten', 'arrived'],
  arrived: ['arriving'],
  '': ['arrived', 'returning', 'forgotten'],
}

/** The moves of accounts, in one service. */
export function startMoves(options: MoveOptions): Moves {
  const { sql, log, tables } = options
  let known = new Map<string, Move>()
  const loop = startDatabaseLoop('moves of accounts', log, pollMs, async () => {
    const moves = await listMoves(sql)
    known = new Map(
      moves.flatMap((move) => [move.account_id, ...move.application_ids].map((id) => [id, move] as const)),
    )
  })
  return {
    service: moveService(options, tables),
    check: (id) => {
      const move = known.size === 0 ? undefined : known.get(id)
      if (move) throw refusal(move)
    },
    stop: () => loop.stop(),
  }
}

function refusal({ state, address }: Move): ServiceError {
  if (state === 'moved' || state === 'forgotten') {
    return new ServiceError('account_moved', `this account is served at ${address}`, { members: { address } })
  }
  return new ServiceError('unavailable', 'this account is being moved: try again; nothing was done')
}

function moveService(options: MoveOptions, tables: readonly AccountTable[]) {
  const { sql, underWay = [], findApplications, prepare, wake } = options
  const requireMove = async (accountId: string, ...states: MoveState[]): Promise<Move> => {
    const move = await findMove(sql, accountId)
    if (move && states.includes(move.state)) return move
    throw conflict(accountId, move?.state, states)
  }
  return implement(MoveService, {
    async changeMove({ accountId, state, applicationIds, address, attempt }) {
      const to: MoveState | '' = state === '' ? '' : readMember('moveState', state)
      const ids = await transaction(sql, async (tx) => {
        const move = await lockMove(tx, accountId)
        const from = move?.state ?? ''
        if (from !== to && !before[to].includes(from)) throw conflict(accountId, from, before[to])
        if (to === 'arrived' && move?.attempt !== attempt) throw replaced(accountId)
        const found = to === 'leaving' ? await findApplications?.(accountId) : undefined
        if (to === 'leaving' && from === '' && findApplications && !found) {
          throw new ServiceError('not_found', `there is no account ${accountId}`)
        }
        const applications =
          found ?? (applicationIds.length > 0 ? applicationIds : move?.application_ids) ?? []
        const next = {
          account_id: accountId,
          application_ids: applications,
          address: address || move?.address || '',
          attempt: attempt || move?.attempt || '',
        }
        // Another run of the command may have opened the account here: a copy would replace what it has written since.
        if (to === 'arriving' && from === '' && (await hasRows(tx, tables, next))) {
          throw conflict(accountId, 'here', ['elsewhere'])
        }
        if (to === 'arriving' || to === 'forgotten') {
          await withoutTimeLimit(tx)
          await deleteRows(tx, tables, { ...next, state: to })
        }
        if (to === '') await deleteMove(tx, accountId)
        else await saveMove(tx, { ...next, state: to })
        return applications
      })
      if (to === '' || to === 'forgotten') await unfence(sql)
      return { applicationIds: ids }
    },
    async getMove({ accountId }) {
      const move = await findMove(sql, accountId)
      return {
        state: move?.state ?? '',
        applicationIds: move?.application_ids ?? [],
        address: move?.address ?? '',
      }
    },
    async fence({ accountId, exceptTables }) {
      await requireMove(accountId, 'leaving')
      await fence(sql, tables, exceptTables)
      return {}
    },
    async getOutbox({ accountId }) {
      const move = await requireMove(accountId, 'leaving')
      // In this order: an event that leaves the outbox meanwhile has a number by then.
      const busy = await isBusy(sql, tables, move, underWay)
      if (busy) wake?.()
      return { isBusy: busy, ...(await findNewest(sql, accountId)) }
    },
    hasConsumed: ({ accountId, ...position }) => findConsumed(sql, accountId, position),
    async exportRows({ accountId, cursor }) {
      return exportRows(sql, tables, await requireMove(accountId, 'leaving', 'moved'), cursor)
    },
    async importRows({ accountId, attempt, ...page }) {
      await prepare?.(page)
      try {
        await transaction(sql, async (tx) => {
          const move = await lockMove(tx, accountId)
          if (move?.state !== 'arriving' || move.attempt !== attempt) throw replaced(accountId)
          await importRows(tx, tables, move, page)
        })
      } catch (error) {
        const constraint = brokenConstraint(error)
        if (constraint === undefined) throw error
        throw new ServiceError('already_exists', `another account here has what ${constraint} allows once`, {
          cause: error,
        })
      }
      return {}
    },
  })
}

function replaced(accountId: string): ServiceError {
  return new ServiceError('conflict', `another run of the command copies ${accountId}: run it again`)
}

function conflict(accountId: string, found: string | undefined, wanted: readonly string[]): ServiceError {
  const name = (state: string | undefined) => state || 'in no move'
  return new ServiceError(
    'conflict',
    `the account ${accountId} is ${name(found)}; this needs ${wanted.map(name).join(' or ')}`,
  )
}
