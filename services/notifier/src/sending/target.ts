import { isIP } from 'node:net'

/** Where a webhook URL leads: what is resolved, dialled and asked for. */
export type Target = {
  origin: string
  /** The host name in ASCII without a trailing dot, or the bare IP address. */
  host: string
  isAddress: boolean
  port: number
  path: string
}

/** The URL parser turns every notation of an address (2130706433, 0x7f.1, 127.1) into the usual one. */
export function targetOf(url: URL): Target {
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname.replace(/\.$/, '')
  const isAddress = isIP(host) !== 0
  const port = url.port === '' ? 443 : Number(url.port)
  const authority = isIP(host) === 6 ? `[${host}]` : host
  const origin = port === 443 ? `https://${authority}` : `https://${authority}:${port}`
  return { origin, host, isAddress, port, path: url.pathname + url.search }
}
