import { join } from 'node:path'
import type { RunningStack } from './stack.ts'

/** What is printed when all is up: where things are, and calls that work when they are pasted. */
export function announcement(stack: RunningStack, logs: string, portalUrl: string | undefined): string {
  const { gateway, appId, apiKey } = stack
  const places = [
    ['gateway', gateway],
    ['API reference', `${gateway}/docs`],
    ...(portalUrl === undefined ? [] : [['portal', portalUrl]]),
    ...(stack.simulatorUrl === undefined ? [] : [['Stripe', `simulated, ${stack.simulatorUrl}`]]),
    ['API key', apiKey],
    ['logs', join(logs, '*.log')],
  ]
  const authorization = `-H 'Authorization: Bearer ${apiKey}'`
  const json = `-H 'Content-Type: application/json'`
  return `
Everything is up.

${places.map(([name = '', value = '']) => `  ${name.padEnd(14)} ${value}`).join('\n')}

Try it:
  curl -s ${gateway}/v1/account ${authorization}
  curl -s ${gateway}/v1/apps/${appId}/plans ${authorization} ${json} -d '{"name":"Pro","code":"pro-'$(date +%s)'"}'
  curl -s ${gateway}/v1/apps/${appId}/plans ${authorization}

`
}

/** The line that scripts wait for. */
export function readyLine({ gateway, appId, accountId }: RunningStack): string {
  return `ready ${JSON.stringify({ gateway, app_id: appId, account_id: accountId })}\n`
}
