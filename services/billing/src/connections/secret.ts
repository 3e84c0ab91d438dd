import { hash, randomBytes } from 'node:crypto'

/** 256 random bits. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** What is stored of a secret, and found by it. */
export function hashOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}
