import { ensureBuilt } from './ensure-built.ts'

await ensureBuilt((line) => process.stderr.write(`${line}\n`))
