/** The credentials of `Authorization: Bearer …`, or undefined where there are none of that form. */
export function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined
  return /^bearer +([\x21-\x7e]+)$/i.exec(authorization)?.[1]
}
