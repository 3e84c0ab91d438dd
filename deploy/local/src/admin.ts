import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { findRunningStack } from './data-folder.ts'
import { dataDirOf } from './start-settings.ts'

// `npm run --silent admin -- create-account --name NAME`: runs the operator's command for the stack that runs in DATA_DIR.
const ADMIN = fileURLToPath(new URL('../../admin/src/licensing-admin.ts', import.meta.url))

const dataDir = dataDirOf(process.env)
const stack = await findRunningStack(dataDir)
if (stack === undefined) {
  process.stderr.write(
    `no service runs in ${dataDir}: run npm start first, or set DATA_DIR to its data folder\n`,
  )
  process.exit(1)
}
const { grpc } = stack
const command = spawn(process.execPath, [ADMIN, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: {
    ...process.env,
    GRPC_ADDRESS: grpc.catalog,
    BILLING_ADDRESS: grpc.billing,
    LICENSING_ADDRESS: grpc.licensing,
    NOTIFIER_ADDRESS: grpc.notifier,
  },
})
const [code] = (await once(command, 'exit')) as [number | null]
process.exit(code ?? 1)
