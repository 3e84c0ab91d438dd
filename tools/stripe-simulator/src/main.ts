import { listenAddress, processConfig, readConfig } from '@licensing/process/config'
import { defineProgram } from '@licensing/process/run'
import { z } from 'zod'
import { startSimulator } from './simulator.ts'

const config = z.object({
  ...processConfig,
  HTTP_ADDRESS: listenAddress
    .default({ host: '127.0.0.1', port: 12_111 })
    .describe('host:port to listen on; port 0 picks a free one'),
  PUBLIC_URL: z.url().optional().describe('base URL of the checkout page for customers'),
  WEBHOOK_TARGET_URL: z.url().optional().describe('URL that gets events; without it they are only listed'),
  STRIPE_WEBHOOK_SECRET: z.string().optional().describe('secret that signs events'),
})

export const program = defineProgram(
  'stripe-simulator',
  (env) => readConfig(config, env),
  async ({ log, onStop }, settings) => {
    const simulator = await startSimulator({
      ...settings.HTTP_ADDRESS,
      publicUrl: settings.PUBLIC_URL,
      webhookUrl: settings.WEBHOOK_TARGET_URL,
      webhookSecret: settings.STRIPE_WEBHOOK_SECRET,
      log,
    })
    onStop('simulator', () => simulator.stop())
    log.info({ url: simulator.url, simulated: true }, 'listening')
  },
)

if (import.meta.main) program.run()
