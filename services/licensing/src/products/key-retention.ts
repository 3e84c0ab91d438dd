/** How long a signed revocation list is good for. */
export const listLifeSeconds = 86_400

// A replica may sign with a retired key for as long as it has not heard of the rotation; clocks differ a little.
const marginSeconds = 60

/** For how long a retired key verifies: until the last token, and the last list, that it signed have expired. */
export function keptSeconds(tokenLifeSeconds: number): number {
  return Math.max(tokenLifeSeconds, listLifeSeconds) + marginSeconds
}
