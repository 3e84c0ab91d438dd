import { Refusal } from '../command/failures.ts'

/** An action of the simulated payment processor; answers with the object that it changed. */
export type Simulator = (
  action: 'pay' | 'refund',
  body: Readonly<Record<string, unknown>>,
) => Promise<unknown>

/** @throws Refusal where what answers is no simulator, or refuses */
export function createSimulator(address: URL): Simulator {
  return async (action, body) => {
    const response = await fetch(new URL(`_sim/${action}`, address.href.replace(/\/*$/, '/')), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(15_000),
    }).catch(() => {
      throw new Refusal('simulator_unavailable', 'nothing answers at LICENSING_SIMULATOR_URL')
    })
    if (!response.headers.has('x-simulated')) {
      throw new Refusal('not_a_simulator', 'the server at LICENSING_SIMULATOR_URL is not the simulator')
    }
    const text = await response.text()
    if (!response.ok) throw new Refusal('simulator_refused', `the simulator refused to ${action}: ${text}`)
    return JSON.parse(text) as unknown
  }
}
