import { CHECKOUT } from '@licensing/local-servers/services'
import { apiClient, type ApiClient } from '@licensing/test-support/api-client'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const admin = join(CHECKOUT, 'deploy/admin/src/licensing-admin.ts')

export interface Vendor {
  accountId: string
  appId: string
  apiKey: string
  /** A client for each gateway. */
  apis: ApiClient[]
}

/** Creates an account with an application through the operator's command line. */
export async function makeVendor(
  name: string,
  gatewayUrls: string[],
  environment: Record<string, string>,
): Promise<Vendor> {
  const { stdout } = await run(process.execPath, [admin, 'create-account', '--name', name], {
    env: { ...commandEnvironment(), ...environment },
  })
  const made = JSON.parse(stdout) as { account_id: string; app_id: string; key: string }
  return {
    accountId: made.account_id,
    appId: made.app_id,
    apiKey: made.key,
    apis: gatewayUrls.map((url) => apiClient(url, made.key)),
  }
}
