import { routes } from '../routes/table.ts'
import { openApiDocument } from './document.ts'

/** Where the committed document lies; the SDK's typed client is made from it. */
export const committedFile = new URL('../../openapi.json', import.meta.url)

/** The text that the committed file has to have. */
export function committedText(): string {
  return `${JSON.stringify(openApiDocument(routes), null, 2)}\n`
}
