import { writeFileSync } from 'node:fs'
import { guide, guideFile } from './guide.ts'

writeFileSync(guideFile, guide())
