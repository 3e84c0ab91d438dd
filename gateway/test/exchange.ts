import { createConnection } from 'node:net'

export interface RawAnswer {
  status: number
  /** Names in lower case. */
  headers: Map<string, string>
  body: string
}

/** Sends bytes on a new connection, and returns everything received until the server closes it. */
export function exchange(port: number, bytes: string, options: { thenEnd?: boolean } = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(port, '127.0.0.1', () => {
      socket.write(bytes, 'latin1')
      if (options.thenEnd) socket.end()
    })
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString()))
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
  })
}

/** Parses the answers in a text. Each must have a `Content-Length` or no body. */
export function answersIn(text: string): RawAnswer[] {
  const answers: RawAnswer[] = []
  for (let rest = Buffer.from(text); rest.length > 0;) {
    const headEnd = rest.indexOf('\r\n\r\n')
    const [first = '', ...lines] = rest.subarray(0, headEnd).toString().split('\r\n')
    const headers = new Map(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
      }),
    )
    const bodyEnd = headEnd + 4 + Number(headers.get('content-length') ?? 0)
    const body = rest.subarray(headEnd + 4, bodyEnd).toString()
    answers.push({ status: Number(first.split(' ')[1]), headers, body })
    rest = rest.subarray(bodyEnd)
  }
  return answers
}
