/** What a key may do (interface 5); none implies another. */
export const scopes = ['admin', 'read', 'revoke', 'issue'] as const

export type Scope = (typeof scopes)[number]

export function isScope(text: string): text is Scope {
  return (scopes as readonly string[]).includes(text)
}
