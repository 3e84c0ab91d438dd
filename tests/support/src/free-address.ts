import { freePort } from '@licensing/local-servers/ports'

/** `host:port` on this machine that nothing listens on. */
export async function freeAddress(): Promise<string> {
  return `127.0.0.1:${await freePort()}`
}
