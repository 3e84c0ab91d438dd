import { addLibraries, ensurePacked } from './build.ts'

const say = (line: string) => process.stderr.write(`${line}\n`)
await ensurePacked(say)
await addLibraries(say)
