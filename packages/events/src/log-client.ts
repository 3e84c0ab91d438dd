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
  /** The producer's last answer; undefined until it has answered once. */
  view: Pick<ReadLogResponse, 'numbers' | 'epochs'> | undefined
  readonly #nats: Nats
  readonly #subject: string

  constructor(nats: Nats, source: Source, consumer: string) {
    this.#nats = nats
    this.#subject = logSubjectOf(source, consumer)
  }

  /**
   * Reports positions, and reads the log's newest numbers and epochs. With `next`, also reads batches of a partition after its
   * position, in order. Another reader's answer may change `view` at any time, so compare batches with the numbers returned
   * here.
   *
   * @throws NatsError if the producer does not answer
   */
  async read(
    positions: PartitionPosition[],
    next?: { partition: number; after: bigint },
  ): Promise<{ batches: EventBatch[]; numbers: bigint[] }> {
    const request = requestOf(positions, next)
    const { data } = await this.#nats.connection.request(this.#subject, request, { timeout: timeoutMs })
    const { numbers, epochs, batches } = fromBinary(ReadLogResponseSchema, data)
    this.view = { numbers, epochs }
    return { batches: batches.map((batch) => fromBinary(EventBatchSchema, batch)), numbers }
  }
  /** Reports positions, without an answer. If the report is lost, the next one has the positions too. */
  report(positions: PartitionPosition[]): void {
    if (this.#nats.connected()) this.#nats.connection.publish(this.#subject, requestOf(positions))
  }
}

function requestOf(positions: PartitionPosition[], next?: { partition: number; after: bigint }): Uint8Array {
  const known = positions.map(({ partition, epochs, number }) => ({
    partition,
    number,
    epoch: epochs.at(-1) ?? '',
  }))
  const request = create(ReadLogRequestSchema, { positions: known, ...(next && { batches: next }) })
  return toBinary(ReadLogRequestSchema, request)
}
