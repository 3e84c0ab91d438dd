import { writeFileSync } from 'node:fs'
import { natsFiles } from './nats-files.ts'

for (const { file, text } of natsFiles()) writeFileSync(file, text)
