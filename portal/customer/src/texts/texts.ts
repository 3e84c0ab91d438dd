/** Every text of the page. A value in it is already in the form of its language. */
export interface Texts {
  language: 'en' | 'de'
  loading: string
  support: string
  back: string
  tryAgain: string
  cancel: string
  copied: string
  licence: {
    title: string
    key: string
    copyKey: string
    plan: string
    term: string
    never: string
    until: (date: string) => string
    updates: string
    updatesUntil: (date: string) => string
    features: string
    feature: Record<'true' | 'false', string>
    manageSubscription: string
    renewsOn: (date: string) => string
    cancelsOn: (date: string) => string
  }
  /** Each says the meaning of a status for the customer, and what to do. `date` is the end of the licence, if it has one. */
  status: {
    active: (date: string | null) => string
    renewing: string
    ending: string
    trial: (date: string) => string
    expired: (date: string | null) => string
    trialOver: string
    downgraded: string
    revoked: string
    retired: string
    suspended: Record<'manual' | 'plan_archived' | 'payment_failed' | 'dispute_inquiry', string>
  }
  machines: {
    title: string
    columns: { name: string; version: string; added: string; seen: string; action: string }
    none: string
    inUse: (count: number, max: number | null) => string
    running: (count: number, max: number) => string
    newest: (shown: number, count: number) => string
    left: (count: number) => string
    nothingLeft: string
    remove: string
    question: (name: string) => string
    effect: string
    removed: (name: string) => string
  }
  offline: {
    title: string
    how: string
    file: string
    days: string
    daysHint: (max: number) => string
    download: string
    noFile: string
    done: (date: string) => string
  }
  signIn: {
    title: string
    key: string
    continue: string
    hint: string
    wrong: string
    off: string
    noSession: string
  }
  problems: {
    /** The session of a link, or of a sign-in with the key, has ended. */
    ended: { link: string; key: string }
    offline: string
    busy: string
    tooMany: (seconds: number) => string
    gone: string
    hasFile: string
    noFreesLeft: string
    full: string
    refused: string
    badRequest: string
    badDays: (max: number) => string
    noSubscription: string
    other: string
  }
}
