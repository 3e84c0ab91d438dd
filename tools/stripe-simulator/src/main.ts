import { readOptions } from './config.ts'
import { startSimulator } from './simulator.ts'

const say = (msg: string, details: object = {}): void => {
  const line = { level: 'info', time: new Date().toISOString(), service: 'stripe-simulator', simulated: true }
  process.stdout.write(`${JSON.stringify({ ...line, ...details, msg })}\n`)
}

const options = readOptions(process.env)
const simulator = await startSimulator(options)

let stopping = false
const stop = (reason: string): void => {
  if (stopping) return
  stopping = true
  say('stopping', { reason })
  simulator.stop().then(
    () => process.exit(0),
    (error: unknown) => {
      say('could not stop cleanly', { error: String(error) })
      process.exit(1)
    },
  )
}
process.on('SIGTERM', () => stop('SIGTERM'))
process.on('SIGINT', () => stop('SIGINT'))
// The launcher holds our standard input: when it is gone, so are we.
if (process.env['STOP_WITH_PARENT'] === '1') process.stdin.on('end', () => stop('parent gone')).resume()

say('serving', { url: simulator.url, webhooks_to: options.webhookUrl ?? null })
