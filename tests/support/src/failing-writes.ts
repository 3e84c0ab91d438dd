import type postgres from 'postgres'

/**
 * Makes PostgreSQL refuse each new or changed row of a table with an error, as with a full disk (53100).
 *
 * @param when a condition on the row `new`; by default each row is refused
 * @returns `refused`, the number of refusals so far, and `end`
 * @example const disk = await failWrites(sql, 'licences', '53100'); …; await disk.end()
 */
export async function failWrites(sql: postgres.Sql, table: string, state: string, when = 'true') {
  const name = `refuse_${table}_${state.toLowerCase()}`
  // A sequence counts also in transactions that are rolled back.
  await sql.unsafe(`
    create sequence ${name};
    create function ${name}() returns trigger language plpgsql as $$
      begin
        perform nextval('${name}');
        raise exception 'refused by a test' using errcode = '${state}';
      end $$;
    create trigger ${name} before insert or update on ${table} for each row when (${when})
      execute function ${name}();`)
  return {
    refused: async () => {
      const [row] = await sql.unsafe<{ refused: number }[]>(
        `select (case when is_called then last_value else 0 end)::int as refused from ${name}`,
      )
      return row!.refused
    },
    end: async () => {
      await sql.unsafe(`drop trigger ${name} on ${table}; drop function ${name}(); drop sequence ${name};`)
    },
  }
}
