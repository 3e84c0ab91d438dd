import { isId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import { readLicenceKey } from '@licensing/formats/licence-key'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { readMachineName } from '@licensing/proto/host-name'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { Handler } from '../dependencies.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import { findAll, findByBeginning, findByHost, findByReference, findExactly } from './search-queries.ts'
import type { Match } from './search-queries.ts'

const maxFound = 20

/** Finds licences by any identifier that a customer may know, best match first (docs/guides/licences.md, "Find and change a licence"). */
export const searchLicences: Handler<'searchLicences'> = async ({ sql, lists, listQueue }, request) => {
  const text = request.query
  const problem = problemOfText(text, textLimits.search)
  if (problem) throw invalid('/q', problem)
  const terms = {
    text,
    host: readMachineName(text),
    licenceId: isId('lic', text) ? text : undefined,
    activationId: isId('act', text) ? text : undefined,
    licenceKey: readLicenceKey(text),
  }
  const [exact, byHost, byReference, byBeginning] = await Promise.all([
    findExactly(sql, request, terms),
    findByHost(sql, request, terms.host, maxFound),
    findByReference(sql, request, text, maxFound),
    listQueue.run(request.accountId, () => findByBeginning(lists, request, text, maxFound)),
  ])
  const ofSales = request.ofSales.map(({ licenceId, matched }): Match => ({
    id: licenceId,
    matched: readMember('searchMatch', matched),
  }))
  const matches = inOrder([[...exact, ...ofSales, ...byHost], byReference, byBeginning])
  const rows = await findAll(
    sql,
    request,
    matches.map(({ id }) => id),
  )
  const found = matches.flatMap(({ id, matched }) => {
    const row = rows.get(id)
    return row ? [{ matched, licence: licenceMessage(row) }] : []
  })
  return { found: found.slice(0, maxFound) }
}

/** Sorts by rank, then by age of the licence, newest first. A licence with several matches is listed by the first kind. */
function inOrder(ranks: Match[][]): Match[] {
  const seen = new Set<string>()
  return ranks.flatMap((rank) =>
    rank
      .toSorted((a, b) => (a.id === b.id ? placeOf(a) - placeOf(b) : a.id < b.id ? 1 : -1))
      .filter(({ id }) => !seen.has(id) && seen.add(id)),
  )
}

const placeOf = ({ matched }: Match) => closedSets.searchMatch.indexOf(matched)
