export type Tree = { [name: string]: string | Tree }

/** Reads Stripe's form encoding: `a[b][0][c]=v` is an object in an object; a list has the keys 0, 1, … or none. */
export function parseForm(text: string): Tree {
  const tree = emptyTree()
  for (const [name, value] of new URLSearchParams(text)) put(tree, pathOf(name), value)
  return tree
}

function pathOf(name: string): string[] {
  const head = name.split('[', 1)[0] ?? ''
  const rest = [...name.slice(head.length).matchAll(/\[([^[\]]*)\]/g)].map((match) => match[1] ?? '')
  return [head, ...rest]
}

function put(tree: Tree, path: string[], value: string): void {
  let at = tree
  for (const [depth, part] of path.entries()) {
    const key = part === '' && depth > 0 ? String(Object.keys(at).length) : part
    if (depth === path.length - 1) {
      at[key] = value
      return
    }
    const next = at[key]
    at = typeof next === 'object' ? next : (at[key] = emptyTree())
  }
}

function emptyTree(): Tree {
  // No prototype: a parameter may be called `constructor` or `__proto__`.
  return Object.create(null) as Tree
}
