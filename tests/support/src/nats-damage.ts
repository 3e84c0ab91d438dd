import type { NatsServer } from '@licensing/local-servers/nats'
import { cp, glob, open, rm, stat, truncate } from 'node:fs/promises'

type Server = Pick<NatsServer, 'kill' | 'storeDir'>

/** Damage to the store of a NATS server. Each kills the server; the caller starts it again. */
export const natsDamage = {
  /** Deletes the store, as if the disk was replaced. */
  async wipe(nats: Server): Promise<void> {
    await nats.kill()
    await rm(nats.storeDir, { recursive: true, force: true })
  },

  /** Restores an earlier copy, as if a power failure lost the data written since. */
  async setBack(nats: Server, copy: string): Promise<void> {
    await natsDamage.wipe(nats)
    await cp(copy, nats.storeDir, { recursive: true })
  },

  /** Truncates each block of messages to its first half. */
  async truncate(nats: Server): Promise<void> {
    await nats.kill()
    for (const { path, bytes } of await blocksOf(nats)) await truncate(path, Math.floor(bytes / 2))
  },

  /** Flips a bit in each block of messages. */
  async flipBit(nats: Server): Promise<void> {
    await nats.kill()
    for (const { path, bytes } of await blocksOf(nats)) {
      const file = await open(path, 'r+')
      const at = Math.floor(bytes / 2)
      const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at)
      await file.write(Buffer.of(buffer[0]! ^ 1), 0, 1, at)
      await file.close()
    }
  },
}

/** Copies the store of a running server, for a later `setBack`. */
export async function copyNatsStore({ storeDir }: Server): Promise<string> {
  const copy = `${storeDir}-copy`
  await rm(copy, { recursive: true, force: true })
  // The server may delete a file during the copy.
  for (let tries = 1; ; tries += 1) {
    try {
      await cp(storeDir, copy, { recursive: true, force: true })
      return copy
    } catch (error) {
      if (tries === 10) throw error
    }
  }
}

async function blocksOf({ storeDir }: Server): Promise<{ path: string; bytes: number }[]> {
  const blocks: { path: string; bytes: number }[] = []
  for await (const path of glob(`${storeDir}/**/*.blk`)) {
    const { size } = await stat(path)
    if (size > 0) blocks.push({ path, bytes: size })
  }
  return blocks
}
