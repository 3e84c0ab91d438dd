import {
  natsAnswers,
  natsRights,
  natsSubjectsAmongReplicas,
  natsUsers,
  type NatsUser,
} from './nats-rights.ts'

/** The account that has the streams; its user `operator` may do everything with them. */
const streamsAccount = 'EVENTS'

/**
 * The accounts of the NATS servers, for their configuration. Each service has an account of its own that imports exactly
 * the subjects it may use. Permissions within one shared account would not be enough: JetStream ignores them when it
 * answers to the `reply` subject of a request, so a service could have an empty answer sent to `STREAM.DELETE`, which
 * deletes a stream.
 *
 * @param password the text to write as the password of a user
 */
export function natsAccounts(password: (user: NatsUser | 'operator') => string): string {
  const lines = [
    'accounts {',
    `  ${streamsAccount} {`,
    '    jetstream: enabled',
    `    users: [{ user: operator, password: ${password('operator')} }]`,
    '    exports: [',
    ...exportLines(),
    '    ]',
    '  }',
    ...natsUsers.flatMap((user) => accountLines(user, password(user))),
    '}',
  ]
  return `${lines.join('\n')}\n`
}

function exportLines(): string[] {
  const subjects = new Map<string, { users: NatsUser[]; stream: boolean }>()
  for (const user of natsUsers) {
    for (const { subject, of, stream = false } of natsRights(user)) {
      if (of) continue
      const { users } = subjects.get(subject) ?? { users: [] }
      subjects.set(subject, { users: [...users, user], stream })
    }
  }
  return [...subjects].map(([subject, { users, stream }]) => {
    const answers = stream ? ', response_type: stream' : ''
    return `      { service: "${subject}", accounts: [${users.map(accountOf).join(', ')}]${answers} }`
  })
}

function accountLines(user: NatsUser, password: string): string[] {
  const rights = natsRights(user)
  const answers = natsAnswers(user)
  const among = natsSubjectsAmongReplicas(user)
  const quoted = (subjects: string[]) => subjects.map((subject) => `            "${subject}"`)
  return [
    `  ${accountOf(user)} {`,
    '    users: [',
    `      { user: ${user}, password: ${password}, permissions: {`,
    '          publish: { allow: [',
    ...quoted([...rights.map(({ subject }) => subject), ...among]),
    '          ] }',
    '          subscribe: { allow: [',
    ...quoted(['_INBOX.>', ...answers.map(({ subject }) => subject), ...among]),
    '          ] }',
    // It may answer the sender of a message.
    ...(answers.length > 0 ? ['          allow_responses: true'] : []),
    '      } }',
    '    ]',
    '    exports: [',
    ...answers.map(({ subject, to }) => `      { service: "${subject}", accounts: [${accountOf(to)}] }`),
    '    ]',
    '    imports: [',
    ...rights.map(
      ({ subject, of }) =>
        `      { service: { account: ${of ? accountOf(of) : streamsAccount}, subject: "${subject}" } }`,
    ),
    '    ]',
    '  }',
  ]
}

function accountOf(user: NatsUser): string {
  return user.toUpperCase()
}
