import { writeFile } from 'node:fs/promises'
import { generatedFiles } from './generated-files.ts'

for (const { file, make } of generatedFiles) await writeFile(file, make())
