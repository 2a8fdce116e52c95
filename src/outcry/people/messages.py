"""Texts of the emails to users, in the languages of the pages.

Emails are plain text with at most one link, on its own line. Only that link is secret. Each email states what to do.
"""

from collections.abc import Mapping
from typing import Literal

from outcry.people.smtp import Mail

About = Literal[
    "sign_in",
    "reset",
    "invitation",
    "email",
    "email_notice",
    "email_taken",
    "webhook_failing",
    "webhook_off",
    "digest",
]
_Texts = Mapping[About, tuple[str, str]]

_ENGLISH: _Texts = {
    "sign_in": (
        "Sign in to Outcry",
        "Sign in to {site} with this link:\n\n{link}\n\n"
        "Open it in the browser you requested it from. The link works once and expires in 10 minutes. If you did not "
        "request it, ignore this email; nobody can sign in without the link.\n",
    ),
    "reset": (
        "Reset your Outcry password",
        "Choose a new password for {site} with this link:\n\n{link}\n\n"
        "The link works once and expires in 30 minutes. A new password signs you out in every browser. If you did not "
        "request this, ignore this email; your password stays the same.\n",
    ),
    "invitation": (
        "Your invitation to Outcry",
        "{operator} has invited you to {site}. Create your account with this link:\n\n{link}\n\n"
        "The link works once and expires in 7 days. If you do not expect an invitation, ignore this email.\n",
    ),
    "email": (
        "Confirm your email address for Outcry",
        "Confirm this email address for your account at {site}:\n\n{link}\n\n"
        "The link works once and expires in 30 minutes. If you did not request this, ignore this email; nothing "
        "changes.\n",
    ),
    "email_notice": (
        "Your Outcry email address is about to change",
        "Someone signed in to your account at {site} asked to change its email address to {wanted}. The change takes "
        "effect when the link sent to that address is opened.\n\nIf this was not you, open the Security page of your "
        "account, choose a new password and sign out everywhere else.\n",
    ),
    "email_taken": (
        "Your email address already has an Outcry account",
        "Someone tried to use this email address for another account at {site}. Your address already has an account, "
        "so nothing changes.\n",
    ),
    "webhook_failing": (
        "Your Outcry webhook has been failing for {hours} hours",
        "Outcry could not deliver anything to {shown} for {hours} hours. It keeps retrying. After five days it "
        "disables the webhook and stores its alerts.\n\nSee the responses and all attempts:\n\n{link}\n",
    ),
    "webhook_off": (
        "Your Outcry webhook is disabled",
        "Outcry no longer sends alerts to {shown}: {why}. It stores them for 30 days. To enable the webhook again, "
        "send a successful test. You can then send the stored alerts:\n\n{link}\n",
    ),
    "digest": (
        "Confirm alert emails from Outcry",
        "A user of {site} wants to send alerts about futures markets to this email address. To agree, open this "
        "link:\n\n{link}\n\n"
        "The link expires in 7 days. Every email contains a link to unsubscribe. If you do not want these emails, "
        "ignore this one; we send nothing without your confirmation.\n",
    ),
}
_GERMAN: _Texts = {
    "sign_in": (
        "Anmeldung bei Outcry",
        "Mit diesem Link melden Sie sich bei {site} an:\n\n{link}\n\n"
        "Öffnen Sie ihn in dem Browser, in dem Sie ihn angefordert haben. Der Link gilt 10 Minuten und nur einmal. "
        "Haben Sie ihn nicht angefordert, ignorieren Sie diese E-Mail: Ohne den Link kann sich niemand anmelden.\n",
    ),
    "reset": (
        "Neues Passwort für Outcry",
        "Mit diesem Link wählen Sie ein neues Passwort für {site}:\n\n{link}\n\n"
        "Der Link gilt 30 Minuten und nur einmal. Das neue Passwort meldet Sie in allen Browsern ab. Haben Sie den "
        "Link nicht angefordert, ignorieren Sie diese E-Mail: Ihr Passwort bleibt unverändert.\n",
    ),
    "invitation": (
        "Ihre Einladung zu Outcry",
        "{operator} hat Sie zu {site} eingeladen. Mit diesem Link erstellen Sie Ihr Konto:\n\n{link}\n\n"
        "Der Link gilt 7 Tage und nur einmal. Erwarten Sie keine Einladung, ignorieren Sie diese E-Mail.\n",
    ),
    "email": (
        "E-Mail-Adresse für Outcry bestätigen",
        "Bestätigen Sie diese E-Mail-Adresse für Ihr Konto bei {site}:\n\n{link}\n\n"
        "Der Link gilt 30 Minuten und nur einmal. Haben Sie ihn nicht angefordert, ignorieren Sie diese E-Mail: Es "
        "ändert sich nichts.\n",
    ),
    "email_notice": (
        "Ihre E-Mail-Adresse bei Outcry soll sich ändern",
        "Jemand, der in Ihrem Konto bei {site} angemeldet ist, möchte die E-Mail-Adresse auf {wanted} ändern. Die "
        "Änderung gilt, sobald der Link in der E-Mail an diese Adresse geöffnet wird.\n\nWaren Sie das nicht, öffnen "
        "Sie in Ihrem Konto die Seite Sicherheit, wählen Sie ein neues Passwort und melden Sie sich überall sonst "
        "ab.\n",
    ),
    "email_taken": (
        "Ihre E-Mail-Adresse hat bereits ein Outcry-Konto",
        "Jemand wollte diese E-Mail-Adresse für ein anderes Konto bei {site} verwenden. Sie gehört schon zu einem "
        "Konto, deshalb ändert sich nichts.\n",
    ),
    "webhook_failing": (
        "Ihr Outcry-Webhook stellt seit {hours} Stunden nicht zu",
        "Outcry konnte {hours} Stunden lang nichts an {shown} zustellen. Weitere Versuche folgen. Nach fünf Tagen "
        "deaktiviert Outcry den Webhook und speichert dessen Alerts.\n\nAlle Antworten und Versuche sehen Sie "
        "hier:\n\n{link}\n",
    ),
    "webhook_off": (
        "Ihr Outcry-Webhook ist deaktiviert",
        "Outcry sendet keine Alerts mehr an {shown}: {why}. Es speichert sie 30 Tage lang. Senden Sie einen "
        "erfolgreichen Test, um den Webhook wieder zu aktivieren. Danach können Sie die gespeicherten Alerts "
        "senden:\n\n{link}\n",
    ),
    "digest": (
        "Alerts von Outcry per E-Mail bestätigen",
        "Ein Benutzer von {site} möchte Alerts zu Futures-Märkten an diese E-Mail-Adresse senden. Öffnen Sie diesen "
        "Link, um zuzustimmen:\n\n{link}\n\n"
        "Der Link gilt 7 Tage. Jede E-Mail enthält einen Link zum Abbestellen. Möchten Sie diese E-Mails nicht, "
        "ignorieren Sie diese Nachricht: Ohne Ihre Zustimmung senden wir nichts.\n",
    ),
}
TEXTS: Mapping[str, _Texts] = {"en": _ENGLISH, "de": _GERMAN}


def build_message(about: About, language: str, to: str, **facts: str) -> Mail:
    """Build an email on a subject; in English if the language has no texts."""
    subject, text = TEXTS.get(language, _ENGLISH)[about]
    return Mail(to, subject.format(**facts), text.format(**facts))
