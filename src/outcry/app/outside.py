"""Build the clients of external services from the settings: the mail server and the OpenID provider."""

from typing import TYPE_CHECKING

from outcry.app.settings import BadSettings, Settings
from outcry.base.clock import Clock
from outcry.people.smtp import SmtpMailer, SmtpServer, smtp_server

if TYPE_CHECKING:
    from outcry.people.openid_provider import WebOpenIdProvider


def mailer_of(settings: Settings, clock: Clock) -> SmtpMailer | None:
    """Return the mailer for account emails, or None without a mail server. Raises `BadSettings`."""
    if not settings.smtp_url:
        return None
    return SmtpMailer(mail_server(settings), mail_from(settings), clock)


def mail_server(settings: Settings) -> SmtpServer:
    """Return the mail server of the settings. Raises `BadSettings`."""
    try:
        return smtp_server(settings.smtp_url)
    except ValueError as problem:
        raise BadSettings(f"OUTCRY_SMTP_URL: {problem}") from None


def mail_from(settings: Settings) -> str:
    """Return the sender address of emails."""
    return f"Outcry <{settings.mail_from}>"


def provider_of(settings: Settings, clock: Clock) -> "WebOpenIdProvider | None":
    """Return the OpenID provider, or None if none is set."""
    if not settings.oidc_issuer:
        return None
    from outcry.people.openid_provider import WebOpenIdProvider  # noqa: PLC0415 - imports joserfc, which loads slowly

    return WebOpenIdProvider(
        settings.oidc_name, settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret, clock
    )
