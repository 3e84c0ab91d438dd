import { errorsGuide } from './errors-guide.ts'
import { eventsGuide } from './events-guide.ts'

const folder = new URL('../../../docs/guides/', import.meta.url)

/** The guides that are made from the code, and where they lie. */
export const generatedGuides = [
  { file: new URL('events.md', folder), make: eventsGuide },
  { file: new URL('errors.md', folder), make: errorsGuide },
]
