// A process of its own for tests that kill it: relays an outbox, or consumes into the table `effects`.
import { connect } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { createLogger } from '@licensing/process/log'
import { connectNats } from '../connection.ts'
import { startConsumer } from '../consumer.ts'
import { startRelay } from '../relay.ts'
import { recordEffects } from './effects.ts'

const { ROLE, DATABASE_URL, NATS_URL } = process.env
const log = createLogger(`worker-${ROLE}`, 'warn')
const sql = connect(DATABASE_URL!, { name: `worker-${ROLE}`, max: 5 })
const nats = await connectNats(NATS_URL!, `worker-${ROLE}`, log)
if (ROLE === 'relay') startRelay({ sql, nats, source: 'licensing', streamReplicas: 1, log })
else {
  startConsumer({
    sql,
    nats,
    service: 'notifier',
    source: 'licensing',
    log,
    handle: recordEffects,
    isTransient: isDatabaseUnavailable,
  })
}
process.stdin.on('end', () => process.exit(0)).resume()
process.stdout.write('up\n')
