import type { Texts } from './en.ts'

const geraete = (count: number) => (count === 1 ? '1 Gerät' : `${count} Geräten`)

export const german: Texts = {
  language: 'de',
  loading: 'Wird geladen …',
  support: 'Hilfe',
  back: 'Zurück',
  tryAgain: 'Noch einmal versuchen',
  cancel: 'Abbrechen',
  copied: 'Kopiert',
  licence: {
    title: 'Lizenz',
    key: 'Lizenzschlüssel',
    copyKey: 'Schlüssel kopieren',
    plan: 'Tarif',
    term: 'Laufzeit',
    never: 'unbefristet',
    until: (date) => `bis ${date}`,
    updates: 'Aktualisierungen',
    updatesUntil: (date) => `Versionen bis ${date}`,
    features: 'Umfang',
    feature: { true: 'enthalten', false: 'nicht enthalten' },
    manageSubscription: 'Abonnement verwalten',
    renewsOn: (date) => `verlängert sich am ${date}`,
    cancelsOn: (date) => `endet am ${date} und wird nicht verlängert`,
  },
  status: {
    active: (date) =>
      date === null
        ? 'Ihre Lizenz ist gültig. Es gibt nichts zu tun.'
        : `Ihre Lizenz ist bis ${date} gültig. Verlängern Sie sie vorher, um das Programm weiter zu nutzen.`,
    renewing: 'Ihre Lizenz ist gültig, und Ihr Abonnement verlängert sie von selbst.',
    ending: 'Ihre Lizenz ist gültig. Ihr Abonnement ist gekündigt: Die Lizenz endet mit der bezahlten Zeit.',
    trial: (date) =>
      `Sie testen das Programm bis ${date}. Kaufen Sie eine Lizenz, um es danach weiter zu nutzen.`,
    expired: (date) =>
      date === null
        ? 'Ihre Lizenz ist abgelaufen. Verlängern Sie sie, um das Programm wieder zu nutzen.'
        : `Ihre Lizenz ist am ${date} abgelaufen. Verlängern Sie sie, um das Programm wieder zu nutzen.`,
    trialOver: 'Die Testzeit ist vorbei. Kaufen Sie eine Lizenz, um das Programm weiter zu nutzen.',
    downgraded:
      'Ein Teil Ihrer Zahlung wurde erstattet. Deshalb hat das Programm nur seine Grundfunktionen. Um alle wieder zu nutzen, zahlen Sie erneut oder bitten Sie um Hilfe.',
    revoked:
      'Diese Lizenz ist dauerhaft nicht mehr gültig. Wenn Sie das nicht erwartet haben, bitten Sie um Hilfe.',
    retired:
      'Diese Lizenz wird nicht mehr verwendet. Wenn Sie das nicht erwartet haben, bitten Sie um Hilfe.',
    suspended: {
      manual: 'Ihre Lizenz ist angehalten. Bitten Sie um Hilfe, um den Grund zu erfahren.',
      plan_archived:
        'Ihre Lizenz ist angehalten, weil es ihren Tarif nicht mehr gibt. Bitten Sie um Hilfe, um den Tarif zu wechseln.',
      payment_failed:
        'Ihre Lizenz ist angehalten, weil eine Zahlung fehlgeschlagen ist. Sie gilt wieder, sobald die Zahlung gelingt: Prüfen Sie Ihre Karte.',
      dispute_inquiry:
        'Ihre Lizenz ist angehalten, weil Ihre Bank eine Frage zu einer Zahlung hat. Sie gilt wieder, wenn das geklärt ist.',
    },
  },
  machines: {
    title: 'Geräte',
    columns: {
      name: 'Gerät',
      version: 'Version',
      added: 'Hinzugefügt',
      seen: 'Zuletzt genutzt',
      action: 'Aktion',
    },
    none: 'Das Programm ist noch auf keinem Gerät. Starten Sie es dort und geben Sie den Lizenzschlüssel ein.',
    inUse: (count, max) =>
      max === null
        ? count === 1
          ? '1 Gerät wird genutzt'
          : `${count} Geräte werden genutzt`
        : `${count} von ${geraete(max)} genutzt`,
    running: (count, max) => `${count} von ${max} laufen jetzt`,
    newest: (shown, count) => `Gezeigt werden die neuesten ${shown} von ${count} Geräten.`,
    left: (count) => `Sie können heute noch ${count === 1 ? 'ein Gerät' : `${count} Geräte`} entfernen.`,
    nothingLeft: 'Sie können heute kein weiteres Gerät entfernen. Morgen geht es wieder.',
    remove: 'Entfernen',
    question: (name) => `${name} entfernen?`,
    effect:
      'Das Programm auf diesem Gerät hört innerhalb eines Tages auf zu arbeiten, und ein anderes Gerät kann die Lizenz nutzen. Sie können dieses Gerät später wieder hinzufügen.',
    removed: (name) => `${name} wurde entfernt.`,
  },
  offline: {
    title: 'Gerät ohne Internet',
    how: 'Für ein Gerät ohne Internet: Das Programm dort erstellt eine Anfragedatei. Wählen Sie sie hier, und öffnen Sie die Lizenzdatei, die Sie bekommen, im Programm.',
    file: 'Anfragedatei',
    days: 'Tage',
    daysHint: (max) => `So lange gilt die Datei: höchstens ${max} Tage.`,
    download: 'Lizenzdatei herunterladen',
    noFile: 'Wählen Sie zuerst die Anfragedatei.',
    done: (date) => `Die Lizenzdatei gilt bis ${date}.`,
  },
  signIn: {
    title: 'Ihre Lizenz',
    key: 'Lizenzschlüssel',
    continue: 'Weiter',
    hint: 'Sie finden ihn in der E-Mail zu Ihrem Kauf.',
    wrong: 'Es gibt keine Lizenz mit diesem Schlüssel. Prüfen Sie ihn Zeichen für Zeichen.',
    off: 'Diese Seite ist nicht verfügbar. Bitten Sie den Verkäufer Ihres Programms um einen Link.',
    noSession:
      'Öffnen Sie den Link, den Sie vom Verkäufer Ihres Programms bekommen haben, um Ihre Lizenz zu sehen.',
  },
  problems: {
    ended: {
      link: 'Ihr Link ist abgelaufen, damit ihn später niemand anders nutzen kann. Bitten Sie den Verkäufer Ihres Programms um einen neuen.',
      key: 'Sie wurden abgemeldet, damit später niemand anders diese Seite nutzen kann. Geben Sie Ihren Lizenzschlüssel noch einmal ein, um fortzufahren.',
    },
    offline: 'Die Seite ist nicht erreichbar. Prüfen Sie Ihre Verbindung, und versuchen Sie es noch einmal.',
    busy: 'Das hat gerade nicht geklappt. Nichts wurde geändert. Versuchen Sie es gleich noch einmal.',
    tooMany: (seconds) =>
      `Das waren zu viele Versuche. Versuchen Sie es in ${seconds === 1 ? 'einer Sekunde' : `${seconds} Sekunden`} noch einmal.`,
    gone: 'Dieses Gerät wurde schon entfernt.',
    hasFile: 'Dieses Gerät hat eine Lizenzdatei, die noch gilt. Danach kann es entfernt werden.',
    noFreesLeft: 'Sie können heute kein weiteres Gerät entfernen. Morgen geht es wieder.',
    full: 'Alle Geräte Ihrer Lizenz sind belegt. Entfernen Sie zuerst eines.',
    refused:
      'Ihre Lizenz ist zurzeit nicht gültig, deshalb gibt es keine Datei. Oben steht, was Sie tun können.',
    badRequest: 'Das ist keine Anfragedatei Ihrer Lizenz. Erstellen Sie eine neue im Programm.',
    badDays: (max) => `Geben Sie eine ganze Zahl von 1 bis ${max} Tagen ein.`,
    noSubscription: 'Ihr Abonnement kann hier zurzeit nicht geändert werden. Bitten Sie um Hilfe.',
    other: 'Das hat nicht geklappt. Bitten Sie um Hilfe, wenn es so bleibt.',
  },
}
