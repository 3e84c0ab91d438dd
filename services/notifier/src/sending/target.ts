import { isIP } from 'node:net'

/** Where a webhook URL leads: what is resolved, dialled and asked for. */
export type Target = {
  url: string
  origin: string
  /** The host name in ASCII without a trailing dot, or the bare IP address. */
  host: string
  isAddress: boolean
  port: number
  path: string
}

/** The URL parser turns every notation of an address (2130706433, 0x7f.1, 127.1) into the usual one. */
export function targetOf(text: string): Target {
  const url = new URL(text)
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname.replace(/\.$/, '')
  const version = isIP(host)
  const port = url.port === '' ? 443 : Number(url.port)
  const authority = version === 6 ? `[${host}]` : host
  const origin = port === 443 ? `https://${authority}` : `https://${authority}:${port}`
  return { url: text, origin, host, isAddress: version !== 0, port, path: url.pathname + url.search }
}
