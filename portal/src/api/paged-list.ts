/** A list that the service gives page by page. */
export interface PagedList<Row> {
  key: readonly unknown[]
  load: (page: { cursor?: string }, signal: AbortSignal) => Promise<PageOf<Row>>
}

interface PageOf<Row> {
  data: Row[]
  next_cursor: string | null
}

type Given<Query> = { [Name in keyof Query]?: Exclude<Query[Name], undefined | ''> }

/** Leaves out the parameters that are undefined or empty. */
export function given<Query extends object>(query: Query): Given<Query> {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  return Object.fromEntries(kept) as Given<Query>
}

/** The members of a closed set, in this order. A set that gains a member does not compile until it is listed here too. */
export function membersOf<Member extends string>(members: Record<Member, true>): readonly Member[] {
  return Object.keys(members) as Member[]
}

/** The text as a member of a closed set; undefined if the set does not have it. */
export function oneOf<Member extends string>(
  members: readonly Member[],
  text: string | undefined,
): Member | undefined {
  return members.find((member) => member === text)
}
