"""What people are reached by and known through outside: the mail server and the OpenID provider of the settings."""

from outcry.ports.clock import Clock
from outcry.ports.mailer import Mailer
from outcry.ports.openid import OpenIdProvider
from outcry.settings import BadSettings, Settings


def mailer_of(settings: Settings, clock: Clock) -> Mailer | None:
    """The mail server, if one is set. Raises `BadSettings`."""
    if not settings.smtp_url:
        return None
    from outcry.deliver.mail import SmtpMailer, smtp_server  # noqa: PLC0415

    try:
        return SmtpMailer(smtp_server(settings.smtp_url), f"Outcry <{settings.mail_from}>", clock)
    except ValueError as problem:
        raise BadSettings(f"OUTCRY_SMTP_URL cannot be used: {problem}") from None


def provider_of(settings: Settings, clock: Clock) -> OpenIdProvider | None:
    """The OpenID provider, if one is set."""
    if not settings.oidc_issuer:
        return None
    from outcry.deliver.openid import WebOpenIdProvider  # noqa: PLC0415

    return WebOpenIdProvider(
        settings.oidc_name, settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret, clock
    )
