/** Tables of a service that checks quotas. */
export const quotaMigrations = {
  name: 'quotas',
  path: new URL('../migrations/quotas', import.meta.url).pathname,
}
