/** Table of a service that counts what accounts may have. */
export const quotaMigrations = {
  name: 'quotas',
  path: new URL('../migrations/quotas', import.meta.url).pathname,
}
