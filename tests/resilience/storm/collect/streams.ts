import { connect } from 'nats'
import type { Databases } from './databases.ts'
import { listPositions } from './other-queries.ts'
import type { Outcome } from '../outcome.ts'

/** Which services read which streams. */
const consumers = [
  ['licensing', 'CATALOG_EVENTS'],
  ['notifier', 'LICENSING_EVENTS'],
  ['notifier', 'BILLING_EVENTS'],
] as const

/** How far each consumer is behind the end of its stream, and what ended among the dead letters. */
export async function readStreams(
  natsUrl: string,
  databases: Databases,
): Promise<{ lags: Outcome['lags']; deadLetters: number }> {
  const connection = await connect({ servers: natsUrl.replace('nats://', '') })
  try {
    const streams = await connection.jetstreamManager()
    const lags: Outcome['lags'] = []
    for (const [service, stream] of consumers) {
      const info = await streams.streams.info(stream, { subjects_filter: '>' })
      const positions = await listPositions(databases.of[service])
      const ends = new Map<number, number>()
      for (const subject of Object.keys(info.state.subjects ?? {})) {
        const partition = Number(subject.split('.')[2])
        const last = await streams.streams.getMessage(stream, { last_by_subj: subject })
        ends.set(partition, Math.max(ends.get(partition) ?? 0, last.seq))
      }
      for (const [partition, end] of ends) {
        const at =
          positions.find((row) => row.stream === stream && row.partition === partition)?.position ?? 0
        lags.push({ consumer: `${service} of ${stream} ${partition}`, behind: Math.max(0, end - at) })
      }
    }
    const dead = await streams.streams.info('DEAD_LETTERS').catch(() => undefined)
    return { lags, deadLetters: dead?.state.messages ?? 0 }
  } finally {
    await connection.close()
  }
}
