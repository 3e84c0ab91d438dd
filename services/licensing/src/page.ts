const usual = 50
const most = 200

/** How many rows a page has; the gateway has refused what is out of bounds. */
export function pageLimit(asked: number): number {
  return asked < 1 ? usual : Math.min(asked, most)
}
