import { copyFile } from 'node:fs/promises'

// The SDK is published alone, and reads these formats with the same code as the services.
const copies = { 'licence-key.ts': 'product/licence-key.ts', 'retry-after.ts': 'retry-after.ts' }
for (const [name, copy] of Object.entries(copies)) {
  const from = new URL(`../../../packages/formats/src/${name}`, import.meta.url)
  await copyFile(from, new URL(`../src/${copy}`, import.meta.url))
}
