import { Option } from '@commander-js/extra-typings'
import { webhookEventTypes } from '@licensing/sdk/webhooks'
import type { Columns, Output } from './output.ts'
import { listOf, oneOf, wholeNumber } from './parsers.ts'

/** An option with a member of a closed set. Help and completion show the members. */
export const memberOption = <const Flags extends string, const Member extends string>(
  flags: Flags,
  description: string,
  members: readonly Member[],
) => {
  const option = new Option(flags, description).argParser(oneOf(members, nameOf(flags)))
  option.argChoices = [...members]
  return option
}

/** Types of events, separated by commas. */
export const eventsOption = (description = 'event types, separated by commas; *: all') => {
  const option = new Option('--events <types>', description).argParser(listOf(webhookEventTypes, 'event'))
  option.argChoices = [...webhookEventTypes]
  return option
}

const nameOf = (flags: string) => /<(\w+)>/.exec(flags)![1]!

export const limitOption = () =>
  new Option('--limit <number>', 'maximum number of rows').argParser(wholeNumber(1)).default(50)

/** Prints the first rows of a list, and says if there are more. */
export async function listRows<Row>(
  out: Output,
  rows: AsyncIterable<Row>,
  limit: number,
  columns: Columns<Row>,
): Promise<void> {
  const found: Row[] = []
  let isCut = false
  for await (const row of rows) {
    if (found.length === limit) {
      isCut = true
      break
    }
    found.push(row)
    if (found.length % 100 === 0) out.progress(`${found.length} rows`)
  }
  if (found.length === 0 && !out.json) return out.message('none found')
  out.list(found, columns)
  if (isCut) out.message(`the first ${limit}; --limit shows more`)
}
