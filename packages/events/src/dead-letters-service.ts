import { fromBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { messageOf } from '@licensing/grpc/fields'
import { implement } from '@licensing/grpc/server'
import { DeadLetterSchema, DeadLettersService } from '@licensing/proto/dead-letters'
import type { Source } from '@licensing/proto/event-streams'
import { EventSchema } from '@licensing/proto/events'
import type { ConsumerOptions } from './consumer-options.ts'
import { countDeadLetters, listDeadLetters, removeDeadLetter } from './dead-letter-queries.ts'
import type { DeadLetter } from './dead-letter-queries.ts'

const maxListed = 1_000
const retriedAtOnce = 100

/** The events that a service could not process, for operators. */
export function deadLettersService(
  options: Pick<ConsumerOptions, 'log' | 'isTransient'> & {
    sql: Database
    handlers: Partial<Record<Source, ConsumerOptions['handle']>>
  },
) {
  const { sql, handlers, isTransient, log } = options
  const process = async (letter: DeadLetter) => {
    const event = fromBinary(EventSchema, letter.payload)
    const handle = handlers[letter.source as Source]!
    const afterCommit = await transaction(sql, async (tx) => {
      // Another operator may retry or discard it at the same time.
      if (!(await removeDeadLetter(tx, letter.id))) return undefined
      const traceParent = letter.trace_parent ?? undefined
      return handle(tx, [{ event, payload: letter.payload, traceParent }])
    })
    afterCommit?.()
  }
  return implement(DeadLettersService, {
    async listDeadLetters() {
      const letters = await listDeadLetters(sql, 0n, maxListed)
      return { deadLetters: letters.map(toProto), total: await countDeadLetters(sql) }
    },
    async retryDeadLetters({ afterId }) {
      const outcomes = []
      for (const letter of await listDeadLetters(sql, afterId, retriedAtOnce)) {
        const deadLetter = toProto(letter)
        try {
          await process(letter)
          outcomes.push({ deadLetter })
        } catch (error) {
          if (isTransient(error)) throw error
          log.error({ err: error, event_id: letter.event_id }, 'a dead letter failed again')
          outcomes.push({ deadLetter, failure: 'its processing failed: see the log of this service' })
        }
      }
      return { outcomes }
    },
    async discardDeadLetter({ id }) {
      return { discarded: await removeDeadLetter(sql, id) }
    },
  })
}

const toProto = (letter: DeadLetter) => messageOf(DeadLetterSchema, letter)
