// The container's health check: asks the process whether it is ready.
const address = (process.env.METRICS_ADDRESS || '127.0.0.1:9090').replace(
  /^(?:0\.0\.0\.0|\[::\]):/,
  'localhost:',
)
try {
  const response = await fetch(`http://${address}/readyz`, { signal: AbortSignal.timeout(2_000) })
  if (!response.ok) process.stderr.write(`${await response.text()}\n`)
  process.exit(response.ok ? 0 : 1)
} catch (error) {
  process.stderr.write(`${String(error)}\n`)
  process.exit(1)
}
