import { join } from 'node:path'
import type { RunningStack } from './stack.ts'

/** The text that is printed when everything is ready: addresses, and commands to paste. */
export function announcement(stack: RunningStack, logs: string, portal: boolean): string {
  const { gateway, appId, apiKey } = stack
  const places = [
    ['gateway', gateway],
    ['guides', `${gateway}/docs/guides`],
    ['API reference', `${gateway}/docs`],
    // The page signs in with the key in the address, and removes the key from it.
    ...(portal ? [['portal', `${gateway}/portal#key=${apiKey}`]] : []),
    ...(stack.simulatorUrl === undefined ? [] : [['Stripe', `simulated, ${stack.simulatorUrl}`]]),
    ...(stack.identityProviderUrl === undefined
      ? []
      : [['sign-in', `simulated, ${stack.identityProviderUrl}; add yourself under Settings, “Members”`]]),
    ['API key', apiKey],
    ['logs', join(logs, '*.log')],
  ]
  const variables = [
    ['LICENSING_URL', gateway],
    ['LICENSING_API_KEY', apiKey],
    ['LICENSING_APP', appId],
    ...(stack.simulatorUrl === undefined ? [] : [['LICENSING_SIMULATOR_URL', stack.simulatorUrl]]),
  ]
  const authorization = `-H 'Authorization: Bearer ${apiKey}'`
  const json = `-H 'Content-Type: application/json'`
  return `
Everything is ready.

${places.map(([name = '', value = '']) => `  ${name.padEnd(14)} ${value}`).join('\n')}

Paste into another terminal, for the command line (npm run --silent cli -- --help) and the guides:
${variables.map(([name, value]) => `  export ${name}=${value}`).join('\n')}

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
