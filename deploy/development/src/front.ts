import { createServer, request as send } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'

/** Paths of the simulated processor: its pages and its control. Its API is not public; only billing calls it. */
const ofSimulator = /^\/(?:$|\?|pay\/|actions\/|_sim\/)/

/** A proxy with one port for the gateway and the simulated processor. */
export function createFront(gateway: string, simulator: string | undefined): Server {
  return createServer((request, response) => {
    const isSimulators = simulator !== undefined && ofSimulator.test(request.url ?? '/')
    passOn(request, response, isSimulators ? simulator : gateway)
  })
}

function passOn(request: IncomingMessage, response: ServerResponse, target: string): void {
  const { method, headers, url = '/' } = request
  const passed = send(new URL(target), { method, headers, path: url, agent: false }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
    answer.on('error', () => response.destroy())
    answer.pipe(response)
  })
  passed.on('error', () => {
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end()
  })
  response.on('close', () => passed.destroy())
  request.pipe(passed)
}
