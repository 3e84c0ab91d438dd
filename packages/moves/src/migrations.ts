import { fileURLToPath } from 'node:url'

/** Tables of a service whose accounts can move to another cell. */
export const moveMigrations = {
  name: 'moves',
  path: fileURLToPath(new URL('../migrations/moves', import.meta.url)),
}
