import { freePort } from '@licensing/local-servers/ports'

/** A `host:port` of this machine on which nothing listens. */
export async function freeAddress(host = '127.0.0.1'): Promise<string> {
  return `${host}:${await freePort()}`
}
