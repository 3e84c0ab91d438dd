import { copyFile } from 'node:fs/promises'

// The SDK is published alone, and reads licence keys with the same code as the services.
const [from, to] = ['../../packages/keys/src/licence-key.ts', '../src/product/licence-key.ts']
await copyFile(new URL(from, import.meta.url), new URL(to, import.meta.url))
