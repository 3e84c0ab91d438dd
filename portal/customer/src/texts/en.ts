const machines = (count: number) => (count === 1 ? '1 machine' : `${count} machines`)

/** Every text of the page. A value in it is already in the form of its language. */
export const english = {
  language: 'en' as 'en' | 'de',
  loading: 'Loading…',
  support: 'Support',
  back: 'Back',
  tryAgain: 'Try again',
  cancel: 'Cancel',
  copied: 'Copied',
  licence: {
    title: 'Licence',
    key: 'Licence key',
    copyKey: 'Copy key',
    plan: 'Plan',
    term: 'Term',
    never: 'no end date',
    until: (date: string) => `until ${date}`,
    updates: 'Updates',
    updatesUntil: (date: string) => `releases until ${date}`,
    features: 'Features',
    feature: { true: 'included', false: 'not included' },
    manageSubscription: 'Manage subscription',
    renewsOn: (date: string) => `renews on ${date}`,
    cancelsOn: (date: string) => `ends on ${date}, and is not renewed`,
  },
  /** The meaning of each status for the customer, and what to do. `date` is the end of the licence, if it has one. */
  status: {
    active: (date: string | null) =>
      date === null
        ? 'Your licence is valid. There is nothing to do.'
        : `Your licence is valid until ${date}. Renew it before then to keep using the product.`,
    renewing: 'Your licence is valid, and your subscription renews it by itself.',
    ending:
      'Your licence is valid. Your subscription is cancelled: the licence ends with the time that you have paid for.',
    trial: (date: string) => `This is a trial until ${date}. To go on after that, buy a licence.`,
    expired: (date: string | null) =>
      date === null
        ? 'Your licence has ended. Renew it to use the product again.'
        : `Your licence ended on ${date}. Renew it to use the product again.`,
    trialOver: 'The time of this trial is over. To go on, buy a licence.',
    downgraded:
      'Part of your payment was refunded, so the product has only its basic functions. To get all of them back, pay again or ask for help.',
    revoked: 'This licence is no longer valid, for good. If you did not expect that, ask for help.',
    retired: 'This licence is not used any more. If you did not expect that, ask for help.',
    suspended: {
      manual: 'Your licence is paused. Ask for help to find out why.',
      plan_archived:
        'Your licence is paused, because its plan is no longer offered. Ask for help to change to another one.',
      payment_failed:
        'Your licence is paused, because a payment failed. It goes on as soon as the payment succeeds: check your card.',
      dispute_inquiry:
        'Your licence is paused, because your bank has a question about a payment. It goes on when that is settled.',
    },
  },
  machines: {
    title: 'Machines',
    columns: { name: 'Machine', version: 'Version', added: 'Added', seen: 'Last used', action: 'Action' },
    none: 'The product is on no machine yet. Start it there and enter your licence key.',
    inUse: (count: number, max: number | null) =>
      max === null ? `${machines(count)} in use` : `${count} of ${machines(max)} in use`,
    running: (count: number, max: number) => `${count} of ${max} running now`,
    newest: (shown: number, count: number) => `The newest ${shown} of ${count} machines are shown.`,
    left: (count: number) =>
      `You can remove ${count === 1 ? 'one more machine' : `${count} more machines`} today.`,
    nothingLeft: 'You cannot remove another machine today. Tomorrow you can.',
    remove: 'Remove',
    question: (name: string) => `Remove ${name}?`,
    effect:
      'The product on this machine stops working within a day, and another machine can use the licence. You can add this machine again later.',
    removed: (name: string) => `${name} was removed.`,
  },
  offline: {
    title: 'Offline machine',
    how: 'For a machine without internet: the product there makes a request file. Choose it here, and open the licence file that you get in the product.',
    file: 'Request file',
    days: 'Days',
    daysHint: (max: number) => `How long the file works: at most ${max} days.`,
    download: 'Download licence file',
    noFile: 'Choose the request file first.',
    done: (date: string) => `The licence file works until ${date}.`,
  },
  signIn: {
    title: 'Your licence',
    key: 'Licence key',
    continue: 'Continue',
    hint: 'You find it in the e-mail about your purchase.',
    wrong: 'There is no licence with this key. Check it, letter by letter.',
    off: 'This page is not available. Ask the seller of your software for a link.',
    noSession: 'To see your licence, open the link that you got from the seller of your software.',
  },
  problems: {
    /** The session of a link, or of a sign-in with the key, has ended. */
    ended: {
      link: 'Your link has ended, so that nobody else can use it later. To go on, ask the seller of your software for a new one.',
      key: 'You were signed out, so that nobody else can use this page later. To go on, enter your licence key again.',
    },
    offline: 'The page cannot be reached. Check your connection, then try again.',
    busy: 'That did not work just now. Nothing was changed. Try again in a moment.',
    tooMany: (seconds: number) =>
      `Those were too many attempts. Try again in ${seconds === 1 ? 'a second' : `${seconds} seconds`}.`,
    gone: 'This machine was removed already.',
    hasFile: 'This machine has a licence file that has not ended yet. It can be removed after that.',
    noFreesLeft: 'You cannot remove another machine today. Tomorrow you can.',
    full: 'All machines of your licence are in use. Remove one first.',
    refused: 'Your licence is not valid now, so there is no file for it. See above what you can do.',
    badRequest: 'This is not a request file of your licence. Make a new one in the product.',
    badDays: (max: number) => `Enter a whole number of days from 1 to ${max}.`,
    noSubscription: 'Your subscription cannot be changed here now. Ask for help.',
    other: 'That did not work. Ask for help if it stays like that.',
  },
}

export type Texts = typeof english
