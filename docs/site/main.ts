import { ensureGuides } from './ensure-guides.ts'

await ensureGuides((line) => process.stderr.write(`${line}\n`))
