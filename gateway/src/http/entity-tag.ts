/** Whether `If-None-Match` names this entity tag (RFC 9110, weak comparison). */
export function matchesEntityTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return entityTags(ifNoneMatch).includes(opaque(tag))
}

/** The tags of an `If-None-Match` header, without `W/` and quotes. */
export function entityTags(ifNoneMatch: string | undefined): string[] {
  return (ifNoneMatch ?? '')
    .split(',')
    .map((tag) => opaque(tag.trim()))
    .filter((tag) => tag !== '')
}

/** A tag as a header carries it. */
export function quoted(tag: string): string {
  return `"${opaque(tag)}"`
}

function opaque(tag: string): string {
  return tag.replace(/^(?:W\/)?"?|"$/g, '')
}
