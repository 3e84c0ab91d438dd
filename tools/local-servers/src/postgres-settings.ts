import { totalmem } from 'node:os'

const MIB = 1_048_576
// 0 where nothing bounds this process.
const MEMORY = Math.min(totalmem(), process.constrainedMemory() || Infinity)

// An eighth of the memory there is, at most 1 GiB. With 256 MiB and 1,000,000 licences an archive takes half as long
// again: it writes pages out to free memory for others.
const SHARED_BUFFERS_MIB = Math.round(Math.min(Math.max(MEMORY / 8 / MIB, 128), 1_024))

/**
 * For servers whose passwords nobody would want to guess: PostgreSQL's own 4096 iterations take over a millisecond at both
 * ends of each login, and the stack of a test logs in some hundred times.
 */
export const quickLogins = { scram_iterations: '1' }

/** Settings of the embedded PostgreSQL; `durable` is what a commit survives: a power cut, or only a crash. */
export function postgresSettings(durable: boolean): Record<string, string> {
  return {
    listen_addresses: '127.0.0.1',
    // A socket file would lie in /tmp, named by the port alone.
    unix_socket_directories: '',
    // A run of all tests has several stacks at a time, some with two of each service.
    max_connections: durable ? '300' : '500',
    shared_buffers: `${SHARED_BUFFERS_MIB}MB`,
    effective_cache_size: `${3 * SHARED_BUFFERS_MIB}MB`,
    maintenance_work_mem: '64MB',
    random_page_cost: '1.1',
    jit: 'off',
    // One server alone: nothing reads the log but its own recovery.
    wal_level: 'minimal',
    max_wal_senders: '0',
    // Segments up to this are used again. No commit ends while PostgreSQL makes one: 17 ms, measured, for each 16 MiB.
    min_wal_size: '1GB',
    max_wal_size: '2GB',
    checkpoint_timeout: '15min',
    autovacuum_naptime: '15s',
    // A refused duplicate is everyday here; the services log what they did not expect.
    log_min_messages: 'log',
    log_checkpoints: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // Commits stay synchronous: they survive a killed server, which tests kill.
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off', ...quickLogins }),
  }
}
