import { ensurePacked } from './build.ts'

await ensurePacked((line) => process.stderr.write(`${line}\n`))
