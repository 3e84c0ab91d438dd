/** The seed of random choices in tests, if the run sets one (CI derives it from the commit). Otherwise each run has another. */
const seed = process.env['TEST_SEED']
if (seed !== undefined) {
  const { configureGlobal } = await import('fast-check')
  configureGlobal({ seed: Number(seed) })
}
