"""What mails to people say, in the languages the pages speak.

Rules kept: plain text; one link at most, alone on its line; nothing in a mail but that link is secret, and each mail
says what to do.
"""

from collections.abc import Mapping
from typing import Literal

from outcry.ports.mailer import Mail

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
        "This link signs in to {site}, in the browser that asked for it:\n\n{link}\n\n"
        "It holds for 10 minutes and works once. Whoever did not ask for it can ignore this mail: without the link "
        "nothing happens.\n",
    ),
    "reset": (
        "A new password for Outcry",
        "With this link a new password for {site} can be chosen:\n\n{link}\n\n"
        "It holds for 30 minutes and works once. Choosing a new password signs out every browser. Whoever did not ask "
        "for it can ignore this mail: the password stays as it is.\n",
    ),
    "invitation": (
        "An invitation to Outcry",
        "{operator} invites to {site}:\n\n{link}\n\n"
        "The link holds for 7 days and works once. Whoever expects no invitation can ignore this mail.\n",
    ),
    "email": (
        "Confirm this address for Outcry",
        "With this link the account at {site} gets this address:\n\n{link}\n\n"
        "It holds for 30 minutes and works once. Whoever did not ask for it can ignore this mail: nothing changes.\n",
    ),
    "email_notice": (
        "Another address for your Outcry account",
        "Somebody signed in to this account at {site} asked to change its address to {wanted}. It changes when the "
        "link sent there is followed.\n\nIf that was somebody else: choose a new password and end all other sessions, "
        "on the page Security of the account.\n",
    ),
    "email_taken": (
        "This address has an Outcry account already",
        "Somebody asked to use this address for another account at {site}. It has an account of its own, so nothing "
        "changes.\n",
    ),
    "webhook_failing": (
        "A webhook of Outcry has been failing for {hours} hours",
        "Nothing has arrived at {shown} for {hours} hours. Outcry goes on trying; after five days it switches the "
        "webhook off and holds its alerts.\n\nWhat the receiver answers, and what was tried when:\n\n{link}\n",
    ),
    "webhook_off": (
        "A webhook of Outcry is switched off",
        "Alerts are no longer sent to {shown}: {why}. They are held for 30 days. Once a test arrives, the webhook is "
        "on again and held alerts can be sent:\n\n{link}\n",
    ),
    "digest": (
        "Alerts from Outcry at this address?",
        "Somebody with an account at {site} wants alerts about futures markets mailed to this address. With this link "
        "whoever reads here agrees:\n\n{link}\n\n"
        "It holds for 7 days. Every mail then has a link that ends them. Whoever does not want them can ignore this "
        "mail: without the link nothing is sent.\n",
    ),
}
_GERMAN: _Texts = {
    "sign_in": (
        "Anmeldung bei Outcry",
        "Dieser Link meldet bei {site} an, und zwar in dem Browser, der ihn angefordert hat:\n\n{link}\n\n"
        "Er gilt 10 Minuten und einmal. Wurde er nicht angefordert, kann diese Nachricht unbeachtet bleiben: Ohne den "
        "Link geschieht nichts.\n",
    ),
    "reset": (
        "Neues Passwort für Outcry",
        "Mit diesem Link lässt sich ein neues Passwort für {site} wählen:\n\n{link}\n\n"
        "Er gilt 30 Minuten und einmal. Ein neues Passwort meldet alle Browser ab. Wurde der Link nicht angefordert, "
        "kann diese Nachricht unbeachtet bleiben: Das Passwort bleibt, wie es ist.\n",
    ),
    "invitation": (
        "Einladung zu Outcry",
        "{operator} lädt zu {site} ein:\n\n{link}\n\n"
        "Der Link gilt 7 Tage und einmal. Wird keine Einladung erwartet, kann diese Nachricht unbeachtet bleiben.\n",
    ),
    "email": (
        "Adresse für Outcry bestätigen",
        "Mit diesem Link erhält das Konto bei {site} diese Adresse:\n\n{link}\n\n"
        "Er gilt 30 Minuten und einmal. Wurde er nicht angefordert, kann diese Nachricht unbeachtet bleiben: Es ändert "
        "sich nichts.\n",
    ),
    "email_notice": (
        "Neue Adresse für das Outcry-Konto",
        "In diesem Konto bei {site} wurde angefordert, die Adresse auf {wanted} zu ändern. Sie ändert sich, sobald dem "
        "dorthin gesandten Link gefolgt wird.\n\nWar das jemand anderes: auf der Seite Sicherheit des Kontos ein neues "
        "Passwort wählen und alle anderen Sitzungen beenden.\n",
    ),
    "email_taken": (
        "Diese Adresse hat bereits ein Outcry-Konto",
        "Jemand wollte diese Adresse für ein anderes Konto bei {site} verwenden. Sie hat schon ein eigenes Konto, es "
        "ändert sich also nichts.\n",
    ),
    "webhook_failing": (
        "Ein Webhook von Outcry schlägt seit {hours} Stunden fehl",
        "Bei {shown} ist seit {hours} Stunden nichts angekommen. Outcry versucht es weiter; nach fünf Tagen wird der "
        "Webhook abgeschaltet, und seine Alarme werden zurückgehalten.\n\nWas der Empfänger antwortet und was wann "
        "versucht wurde:\n\n{link}\n",
    ),
    "webhook_off": (
        "Ein Webhook von Outcry ist abgeschaltet",
        "An {shown} werden keine Alarme mehr gesendet: {why}. Sie werden 30 Tage zurückgehalten. Sobald ein Test "
        "ankommt, ist der Webhook wieder an, und zurückgehaltene Alarme können gesendet werden:\n\n{link}\n",
    ),
    "digest": (
        "Hinweise von Outcry an diese Adresse?",
        "Jemand mit einem Konto bei {site} möchte Hinweise zu Futures-Märkten an diese Adresse senden lassen. Mit "
        "diesem Link stimmt zu, wer hier liest:\n\n{link}\n\n"
        "Er gilt 7 Tage. Jede Nachricht enthält dann einen Link, der sie beendet. Wer sie nicht möchte, kann diese "
        "Nachricht unbeachtet lassen: Ohne den Link wird nichts gesendet.\n",
    ),
}
TEXTS: Mapping[str, _Texts] = {"en": _ENGLISH, "de": _GERMAN}


def letter(about: About, language: str, to: str, **facts: str) -> Mail:
    """The mail about something; in English where the language is none of ours."""
    subject, text = TEXTS.get(language, _ENGLISH)[about]
    return Mail(to, subject.format(**facts), text.format(**facts))
