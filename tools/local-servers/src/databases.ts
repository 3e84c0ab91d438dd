import postgres from 'postgres'
import { DATABASE_SERVICES, type DatabaseService } from './services.ts'

/** The server cannot be reached, rejects the login, or the user lacks rights. The message says which. */
export class DatabaseSetupError extends Error {
  override name = 'DatabaseSetupError'
}

interface DatabasePlan {
  /** URL of the server or several servers, with a user that may create databases and roles. */
  serverUrl: string
  /** Names end with it, so that several stacks can share a server. Lower-case letters and digits. */
  suffix: string
  passwords: Record<DatabaseService, string>
}

const toLeader = { max: 1, onnotice: () => undefined, target_session_attrs: 'primary' } as const

/**
 * Creates a database for each service if it is missing. Its owner is a role that can connect to no other database.
 *
 * @returns each service's DATABASE_URL
 * @throws DatabaseSetupError when the server cannot be reached, rejects the login, or the user lacks the rights
 */
export async function ensureDatabases(plan: DatabasePlan): Promise<Record<DatabaseService, string>> {
  const sql = postgres(plan.serverUrl, { ...toLeader, connect_timeout: 60 })
  try {
    const urls: Partial<Record<DatabaseService, string>> = {}
    for (const service of DATABASE_SERVICES) {
      const name = `licensing_${service}_${plan.suffix}`
      await ensureDatabase(sql, name, plan.passwords[service])
      const login = `${name}:${encodeURIComponent(plan.passwords[service])}`
      urls[service] = plan.serverUrl.replace(partsOfUrl, `$1${login}@$2/${name}`)
    }
    return urls as Record<DatabaseService, string>
  } catch (error) {
    throw explained(error, plan.serverUrl)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Drops the databases and roles that `ensureDatabases` created, even while clients are connected. */
export async function dropDatabases(plan: Pick<DatabasePlan, 'serverUrl' | 'suffix'>): Promise<void> {
  const sql = postgres(plan.serverUrl, toLeader)
  try {
    for (const service of DATABASE_SERVICES) {
      const name = `licensing_${service}_${plan.suffix}`
      await sql`drop database if exists ${sql(name)} with (force)`
      await sql`drop role if exists ${sql(name)}`
    }
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** The scheme, the user, the hosts with commas between them, and the database. */
const partsOfUrl = /^(postgres(?:ql)?:\/\/)(?:[^/?]*@)?([^/?]*)(?:\/[^?]*)?/

async function ensureDatabase(sql: postgres.Sql, name: string, password: string): Promise<void> {
  const [role] = await sql`select 1 from pg_roles where rolname = ${name}`
  // Statements for roles take no parameters. The password is generated as base64url.
  const login = `login password '${password.replaceAll("'", "''")}'`
  await sql.unsafe(`${role === undefined ? 'create' : 'alter'} role "${name}" ${login}`)
  const [database] = await sql`select 1 from pg_database where datname = ${name}`
  if (database !== undefined) return
  // A user that is not a superuser may create a database for a role only if it is a member of that role.
  await sql`grant ${sql(name)} to current_user`
  await sql`create database ${sql(name)} owner ${sql(name)} template template0 encoding 'UTF8'`
  await sql`revoke connect, temporary on database ${sql(name)} from public`
}

function explained(error: unknown, serverUrl: string): unknown {
  const [, , host = ''] = partsOfUrl.exec(serverUrl) ?? []
  const [username = ''] = serverUrl.replace(/^.*?:\/\//, '').split(/[:@]/)
  const { code = '', message } = error as { code?: string; message: string }
  if (code === '42501') {
    return new DatabaseSetupError(
      `user ${username} of DATABASE_URL may not create databases and roles (${message}): ` +
        `alter role ${username} createdb createrole, or leave DATABASE_URL out to use an embedded PostgreSQL`,
      { cause: error },
    )
  }
  const postgresServer = `the PostgreSQL of DATABASE_URL at ${host}`
  if (/^(ECONN|ENOTFOUND|EAI_AGAIN|CONNECT_TIMEOUT)/.test(code)) {
    return new DatabaseSetupError(`${postgresServer} cannot be reached: ${message}`, { cause: error })
  }
  // Class 28 of the SQLSTATE codes: invalid authorization.
  if (code.startsWith('28')) {
    return new DatabaseSetupError(`${postgresServer} rejected the login of ${username}: ${message}`, {
      cause: error,
    })
  }
  return error
}
