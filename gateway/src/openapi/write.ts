import { writeFile } from 'node:fs/promises'
import { committedFile, committedText } from './committed.ts'

await writeFile(committedFile, committedText())
