import { writeFile } from 'node:fs/promises'
import { generatedGuides } from './generated.ts'

for (const { file, make } of generatedGuides) await writeFile(file, make())
