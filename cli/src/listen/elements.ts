/**
 * The texts of the objects in the list of `{"data":[{…},{…}],…}`, as they stand there: a signature is made over
 * bytes, which writing the parsed objects again need not give.
 */
export function elementsOf(text: string): string[] {
  const elements: string[] = []
  let depth = 0
  let start = 0
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (token === '{' || token === '[') {
      if (depth === 2) start = index
      depth++
    } else if (token === '}' || token === ']') {
      depth--
      if (depth === 2) elements.push(text.slice(start, index + 1))
    }
  }
  return elements
}
