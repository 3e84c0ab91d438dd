import { startSimulator, type SimulatorOptions } from './simulator.ts'

/** The program as `npm start` runs it in its own process, like the services. */
export const program = {
  name: 'stripe-simulator',
  launch({ env, logFile, failed }: LaunchOptions) {
    let isReady = false
    const started = startSimulator({ ...readOptions(env), logFile }).then((simulator) => {
      isReady = true
      return simulator
    })
    started.catch((error: unknown) => failed(String(error)))
    return {
      health: { check: () => Promise.resolve({ ready: isReady, probes: {} }) },
      stop: async () => {
        await started.then((simulator) => simulator.stop())
        return true
      },
    }
  },
}

interface LaunchOptions {
  env: Record<string, string | undefined>
  logFile: string
  failed: (reason: string) => void
}

if (import.meta.main) await runAlone()

async function runAlone(): Promise<void> {
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
  // The launcher holds our standard input open. When the launcher ends, the input closes and we stop.
  if (process.env['STOP_WITH_PARENT'] === '1') process.stdin.on('end', () => stop('parent gone')).resume()

  say('serving', { url: simulator.url, webhooks_to: options.webhookUrl ?? null })
}

function say(msg: string, details: object = {}): void {
  const line = { level: 'info', time: new Date().toISOString(), service: 'stripe-simulator', simulated: true }
  process.stdout.write(`${JSON.stringify({ ...line, ...details, msg })}\n`)
}

/** Reads the environment. README.md describes each variable. An empty value counts as absent. */
function readOptions(env: Record<string, string | undefined>): SimulatorOptions {
  const given = (name: string): string | undefined => env[name] || undefined
  const [host, port] = readAddress(given('HTTP_ADDRESS') ?? '127.0.0.1:12111')
  const options: SimulatorOptions = { host, port, logLevel: given('LOG_LEVEL') ?? 'info' }
  const publicUrl = given('PUBLIC_URL')
  const webhookUrl = given('WEBHOOK_TARGET_URL')
  const webhookSecret = given('STRIPE_WEBHOOK_SECRET')
  const stateFile = given('STATE_FILE')
  if (publicUrl !== undefined) options.publicUrl = publicUrl
  if (webhookUrl !== undefined) options.webhookUrl = webhookUrl
  if (webhookSecret !== undefined) options.webhookSecret = webhookSecret
  if (stateFile !== undefined) options.stateFile = stateFile
  return options
}

function readAddress(text: string): [host: string, port: number] {
  const match = /^(.+):(\d{1,5})$/.exec(text)
  if (match === null) throw new Error(`HTTP_ADDRESS must be host:port, not ${text}`)
  const [, host = '', port = ''] = match
  return [host.replace(/^\[|\]$/g, ''), Number(port)]
}
