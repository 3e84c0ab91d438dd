type Members = Record<string, unknown>

const mostEmbedded = 10

/** The lists that an object holds the first page of; the rest is read from the list's own address. */
const lists: Readonly<Record<string, string>> = { invoice: 'lines', subscription: 'items' }

/** An object as it travels, with what is expanded in it and in each member of a list. */
export function asEmbedded<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map((member: unknown) => asEmbedded(member)) as Value
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, member]) => [name, asEmbedded(member)] as const)
  const copy: Members = Object.fromEntries(members)
  const field = lists[String(copy['object'])]
  const list = field === undefined ? undefined : (copy[field] as { data: unknown[] } | undefined)
  if (field !== undefined && list && list.data.length > mostEmbedded) {
    copy[field] = { ...list, data: list.data.slice(0, mostEmbedded), has_more: true }
  }
  return copy as Value
}
