import { create, toBinary } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { EventSchema } from '@licensing/proto/events'
import { connect, headers as newHeaders } from 'nats'
import { setTimeout as pause } from 'node:timers/promises'
import type { Vendor } from './bed.ts'

// `flood-events.ts NATS_URL VENDOR PER_SECOND`: publishes events of a vendor until its input ends, and prints how many a
// second these were.
const [url = '', vendorJson = '', rate = ''] = process.argv.slice(2)
const { partition, ...of } = JSON.parse(vendorJson) as Vendor
const nats = await connect({ servers: url })
const roundMs = 50
const perRound = (Number(rate) * roundMs) / 1000
const value = { licenceId: 'lic_01k9v7f8qyf0cbe7bq2m7t1a2b', status: 'suspended', reason: 'manual' }
let isRunning = true
process.stdin.on('end', () => (isRunning = false)).resume()
process.stdout.write('up\n')
const startedAt = Date.now()
let published = 0
for (let round = 1; isRunning; round += 1) {
  for (; published < round * perRound; published += 1) {
    const id = newId('evt')
    const occurredAt = timestampFromDate(new Date())
    const event = create(EventSchema, { ...of, id, occurredAt, payload: { case: 'licenceSuspended', value } })
    const headers = newHeaders()
    // As the relay publishes: what lists a stream's ids finds them in the headers.
    headers.set('Nats-Msg-Id', id)
    nats.publish(`events.licensing.${partition}.licence_suspended`, toBinary(EventSchema, event), { headers })
  }
  await nats.flush()
  const leftMs = startedAt + round * roundMs - Date.now()
  if (leftMs > 0) await pause(leftMs)
}
process.stdout.write(`${Math.round((published * 1000) / (Date.now() - startedAt))}\n`)
await nats.close()
