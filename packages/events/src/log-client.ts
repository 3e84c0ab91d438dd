import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { EventBatchSchema, ReadLogRequestSchema, ReadLogResponseSchema } from '@licensing/proto/event-log'
import type { EventBatch, ReadLogResponse } from '@licensing/proto/event-log'
import { logSubjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import type { PartitionPosition } from './consumer-queries.ts'
import type { Nats } from './connection.ts'

const timeoutMs = 3_000

/** Asks a producer for its log. */
export class LogClient {
  /** What the producer answered last; undefined until it has answered once. */
  view: Pick<ReadLogResponse, 'numbers' | 'epochs'> | undefined
  readonly #nats: Nats
  readonly #subject: string

  constructor(nats: Nats, source: Source, consumer: string) {
    this.#nats = nats
    this.#subject = logSubjectOf(source, consumer)
  }

  /**
   * Reports positions and reads what the log is now. With `next`, also reads batches of a partition after its position, in
   * order. The view changes with each answer, also with one to another reader: what follows from missing batches follows from
   * the numbers that came with them.
   *
   * @throws NatsError if the producer does not answer
   */
  async read(
    positions: PartitionPosition[],
    next?: { partition: number; after: bigint },
  ): Promise<{ batches: EventBatch[]; numbers: bigint[] }> {
    const request = create(ReadLogRequestSchema, {
      positions: positions.map(({ partition, epochs, number }) => ({
        partition,
        number,
        epoch: epochs.at(-1) ?? '',
      })),
      ...(next && { batches: next }),
    })
    const bytes = toBinary(ReadLogRequestSchema, request)
    const { data } = await this.#nats.connection.request(this.#subject, bytes, { timeout: timeoutMs })
    const { numbers, epochs, batches } = fromBinary(ReadLogResponseSchema, data)
    this.view = { numbers, epochs }
    return { batches: batches.map((batch) => fromBinary(EventBatchSchema, batch)), numbers }
  }
}
