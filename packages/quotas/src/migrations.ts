import { fileURLToPath } from 'node:url'

/** Tables of a service that checks quotas. */
export const quotaMigrations = {
  name: 'quotas',
  path: fileURLToPath(new URL('../migrations/quotas', import.meta.url)),
}
