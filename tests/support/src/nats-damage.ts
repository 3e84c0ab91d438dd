import type { NatsServer } from '@licensing/local-servers/nats'
import { cp, glob, open, rm, stat, truncate } from 'node:fs/promises'

type Server = Pick<NatsServer, 'kill' | 'storeDir'>

/** Damage to the store of a NATS server. Each kills the server; the caller starts it again. */
export const natsDamage = {
  /** As after a disk was replaced. */
  async wipe(nats: Server): Promise<void> {
    await nats.kill()
    await rm(nats.storeDir, { recursive: true, force: true })
  },

  /** As a power failure leaves it: what was written since `copy` is lost. */
  async setBack(nats: Server, copy: string): Promise<void> {
    await natsDamage.wipe(nats)
    await cp(copy, nats.storeDir, { recursive: true })
  },

  /** The second half of each block of messages is lost. */
  async truncate(nats: Server): Promise<void> {
    await nats.kill()
    for (const { path, bytes } of await blocksOf(nats)) await truncate(path, Math.floor(bytes / 2))
  },

  /** One bit of each block of messages is another. */
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

/** Copies the store of a server that runs: the state that a later `setBack` restores. */
export async function copyNatsStore({ storeDir }: Server): Promise<string> {
  const copy = `${storeDir}-copy`
  await rm(copy, { recursive: true, force: true })
  // A file may vanish while it is copied.
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
