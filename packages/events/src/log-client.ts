import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { EventBatchSchema, ReadLogRequestSchema, ReadLogResponseSchema } from '@licensing/proto/event-log'
import type { EventBatch, ReadLogResponse } from '@licensing/proto/event-log'
import { logSubjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import type { PartitionPosition } from './consumer-queries.ts'
import type { Nats } from './connection.ts'

const timeoutMs = 3_000

/** The answer of a log: its newest numbers, and batches in order. */
export interface LogAnswer extends Pick<ReadLogResponse, 'epoch' | 'numbers' | 'firstNumbers' | 'growths'> {
  batches: EventBatch[]
}

/** Asks a producer for its log. */
export class LogClient {
  readonly #nats: Nats
  readonly #subject: string

  constructor(nats: Nats, source: Source, consumer: string) {
    this.#nats = nats
    this.#subject = logSubjectOf(source, consumer)
  }

  /**
   * Reports positions, and reads the log's newest numbers.
   *
   * @param partition also reads batches of this partition after its position
   * @throws NatsError if the producer does not answer
   */
  async read(positions: PartitionPosition[], partition?: number): Promise<LogAnswer> {
    const request = requestOf(positions, partition)
    const { data } = await this.#nats.connection.request(this.#subject, request, { timeout: timeoutMs })
    const { epoch, numbers, firstNumbers, growths, batches } = fromBinary(ReadLogResponseSchema, data)
    return {
      epoch,
      numbers,
      firstNumbers,
      growths,
      batches: batches.map((batch) => fromBinary(EventBatchSchema, batch)),
    }
  }
  /** Reports positions, without an answer. If the report is lost, the next one has the positions too. */
  report(positions: PartitionPosition[]): void {
    if (this.#nats.connected()) this.#nats.connection.publish(this.#subject, requestOf(positions))
  }
}

function requestOf(positions: PartitionPosition[], partition?: number): Uint8Array {
  const request = create(ReadLogRequestSchema, {
    positions: positions.map(({ done, ...position }) => ({ ...position, hasPart: done > 0 })),
    ...(partition !== undefined && { partition }),
  })
  return toBinary(ReadLogRequestSchema, request)
}
