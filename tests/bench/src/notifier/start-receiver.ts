import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'

/** The receiver, in a separate process. */
export interface Receiver extends Disposable {
  url: (path: string) => string
  /** PEM of the authority that signed the receiver's certificate; `caFile` is its file. */
  authority: string
  caFile: string
  /** When the first delivery of each event arrived, by the clock of `machineMs`. */
  arrivals: () => Promise<Map<string, number>>
}

/** @param folder the folder for the authority's certificate */
export async function startReceiver(folder: string): Promise<Receiver> {
  const child = fork(new URL('receiver.ts', import.meta.url))
  const [{ port, authority }] = (await once(child, 'message')) as [{ port: number; authority: string }]
  const caFile = `${folder}/authority.pem`
  await writeFile(caFile, authority)
  return {
    url: (path) => `https://localhost:${port}${path}`,
    authority,
    caFile,
    arrivals: async () => {
      child.send('seen')
      const [{ seen }] = (await once(child, 'message')) as [{ seen: [string, number][] }]
      return new Map(seen)
    },
    [Symbol.dispose]: () => child.disconnect(),
  }
}
