import { writeFile } from 'node:fs/promises'
import { guideFile, lifecycleGuide } from './lifecycle-guide.ts'

await writeFile(guideFile, lifecycleGuide())
