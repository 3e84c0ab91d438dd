import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { collectDefaultMetrics, Gauge, register } from 'prom-client'
import type { Health } from './health.ts'
import { measureAll } from './measures.ts'

// These metrics are removed: for them an idle process samples the event loop 100 times per second, which takes 0.2 % of a
// core. The lag at the time of a scrape (`nodejs_eventloop_lag_seconds`) costs nothing.
const samples = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map(
  (name) => `nodejs_eventloop_lag_${name}_seconds`,
)
const never = 2 ** 31 - 1

const ready = new Gauge({
  name: 'process_ready',
  help: '1 if a probe of /readyz passes, 0 if it fails',
  labelNames: ['probe'],
})

/** Starts an HTTP server for operators: `/metrics` (Prometheus), `/healthz` (alive), `/readyz` (alive, with dependencies). */
export async function startOperationsServer(
  listen: { host: string; port: number },
  health: Health,
): Promise<{ port: number; stop(): Promise<void> }> {
  if (!register.getSingleMetric('process_cpu_user_seconds_total')) collectProcessMetrics()
  const server = createServer((request, response) => {
    void answer(request.url ?? '/', health).then(({ status, type, body }) => {
      response.writeHead(status, { 'Content-Type': type }).end(body)
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(listen.port, listen.host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(url: string, health: Health): Promise<{ status: number; type: string; body: string }> {
  const json = 'application/json'
  switch (url.split('?')[0]) {
    case '/metrics':
      await Promise.all([measureAll(), measureReadiness(health)])
      return { status: 200, type: register.contentType, body: await register.metrics() }
    case '/healthz': {
      const problem = health.lifeProblem
      const status = problem ?? 'ok'
      return { status: problem === null ? 200 : 503, type: json, body: JSON.stringify({ status }) }
    }
    case '/readyz': {
      const { ready, probes } = await health.check()
      return { status: ready ? 200 : 503, type: json, body: JSON.stringify({ ready, probes }) }
    }
    default:
      return { status: 404, type: json, body: '{"error":"not found"}' }
  }
}

async function measureReadiness(health: Health): Promise<void> {
  const { probes } = await health.check()
  ready.reset()
  for (const [probe, problem] of Object.entries(probes)) ready.set({ probe }, problem === null ? 1 : 0)
}

function collectProcessMetrics(): void {
  collectDefaultMetrics({ eventLoopMonitoringPrecision: never })
  for (const name of samples) register.removeSingleMetric(name)
}
