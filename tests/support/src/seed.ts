/** What tests draw from at random, where the run names it (CI: by its commit); another each time otherwise. */
const seed = process.env['TEST_SEED']
if (seed !== undefined) {
  const { configureGlobal } = await import('fast-check')
  configureGlobal({ seed: Number(seed) })
}
