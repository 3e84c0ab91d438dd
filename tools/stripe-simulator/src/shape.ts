/** A JSON value reduced to its keys and the types of its values. */
export function shapeOf(value: unknown): unknown {
  if (value === null) return 'null'
  if (Array.isArray(value)) return distinct(value.map(shapeOf))
  if (typeof value !== 'object') return typeof value
  const entries = Object.entries(value).map(([key, member]) => [key, shapeOf(member)] as const)
  // The members of metadata are the integrator's, not Stripe's.
  return Object.fromEntries(
    entries.map(([key, member]) => [key, key === 'metadata' && member !== 'null' ? 'metadata' : member]),
  )
}

/** How many members a list has is not part of its shape. */
function distinct(shapes: unknown[]): unknown[] {
  return [...new Map(shapes.map((shape) => [JSON.stringify(shape), shape])).values()]
}
