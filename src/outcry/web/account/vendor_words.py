"""Texts for connection codes: what each code means, and what to do about it, in general or with one vendor.

The adapters define the codes. A connection's page and the broker guide show the same text, and the page
links to the guide. If only third parties describe a vendor's terms, the text refers the user to the vendor.
"""

from collections.abc import Mapping

from outcry.web.language import Words, later

#: Meaning and general remedy of each code.
_CODES: Mapping[str, tuple[str, str]] = {
    "disconnected": (
        later("The connection was lost."),
        later("Reconnecting automatically, at intervals of up to a minute."),
    ),
    "unreachable": (
        later("The vendor can't be reached: its host was not found or does not respond."),
        later("We'll keep retrying. If this persists, check the vendor's status page and your network."),
    ),
    "link_silent": (
        later("Connected, but no data or heartbeats received."),
        later("Reconnecting automatically."),
    ),
    "seam_overflow": (
        later("Too many live trades arrived while history was loading."),
        later("Restarting automatically. Fewer symbols load faster."),
    ),
    "rate_limited": (
        later("The vendor's request limit was exceeded."),
        later(
            "Resumes automatically after a pause. If this persists, close other programs that use "
            "the same account."
        ),
    ),
    "vendor_error": (
        later("The vendor reported an internal error."),
        later("We'll keep retrying. If this persists, check the vendor's status page."),
    ),
    "protocol": (
        later("The vendor sent data that can't be read."),
        later(
            "We'll keep retrying. If this persists, tell the operator: the vendor may have changed "
            "its data format."
        ),
    ),
    "login_refused": (
        later("The vendor rejected the credentials."),
        later(
            "Enter the credentials again. After two rejections we stop trying, so the vendor does "
            "not lock the account."
        ),
    ),
    "login_expired": (
        later("The vendor sign-in has expired: its key, token or password is no longer valid."),
        later("Create a new one there and enter it here."),
    ),
    "not_entitled": (
        later("The vendor account has no entitlement to this real-time data."),
        later("Subscribe to the exchange's data there, then try again."),
    ),
    "unknown_contract": (
        later("The vendor does not know this contract."),
        later("Remove the product, or ask the vendor by which name it offers this contract."),
    ),
    "too_many_sessions": (
        later("Too many programs are using the account at once."),
        later("Close the others, then try again."),
    ),
    "not_allowed": (
        later("The vendor does not allow this connection for this account or location."),
        later("Read the vendor's rules. If they require it, run the agent on your own computer."),
    ),
    "wrong_entry": (
        later("The vendor rejected one of the settings."),
        later("Enter them again."),
    ),
    "wrong_step": (
        later("The vendor's prices or sizes have finer steps than this product's tick or size step."),
        later(
            "The operator can change tick or size_step in instruments/products.csv in the data folder and restart "
            "the service."
        ),
    ),
    "unsubscribed": (
        later("The vendor does not send this contract."),
        later("Check with the vendor that your subscription to the exchange's data is active."),
    ),
    "paused": (later("Paused."), later("Resume it when you need it again.")),
    "not_installed": (
        later("Support for this vendor is no longer installed."),
        later("Ask the operator to install it."),
    ),
    "not_hosted": (
        later("This service may no longer connect to this vendor."),
        later("Connect with the agent on your own computer."),
    ),
    "entries_lost": (
        later("The stored credentials can't be decrypted: the service's encryption key has changed."),
        later("Enter the credentials again."),
    ),
    "pushed": (
        later("Your own program already sends a feed with this name."),
        later("Stop that program, then try again."),
    ),
    "agent_stopped": (
        later("The agent on your computer was stopped."),
        later("Start it again there: outcry agent."),
    ),
    "no_room": (
        later("The disk of the agent's computer is full."),
        later("Free disk space. Recording resumes automatically."),
    ),
}
#: Remedies of single vendors, by vendor and code. They replace the general remedy.
_CURES: Mapping[str, Mapping[str, str]] = {
    "databento": {
        "login_refused": later(
            "The key was revoked, is incomplete or belongs to another team. Create a new key under "
            "API keys in the Databento portal and enter it here."
        ),
        "login_expired": later(
            "The key was deactivated, in the portal or by Databento. Create a new one there under "
            "API keys and enter it here."
        ),
        "not_entitled": later(
            "The key's team has no live subscription to GLBX.MDP3, or has not signed the exchange "
            "agreement. Check your plan in the Databento portal. Access to historical data does not "
            "include live data."
        ),
        "too_many_sessions": later(
            "The team has reached its plan's limit of live connections, usually ten. Close those of "
            "other programs, then try again."
        ),
        "unknown_contract": later(
            "GLBX.MDP3 has no such contract today: it has expired or is not listed yet. Remove the product."
        ),
    },
    "ibkr": {
        "unreachable": later(
            "Trader Workstation or IB Gateway is not running, its API is off, or the port is wrong. "
            "The default ports are 4001 for Gateway (paper 4002) and 7496 for Trader Workstation "
            "(paper 7497)."
        ),
        "disconnected": later(
            "Trader Workstation was closed, is doing its daily restart or lost its own connection. "
            "The feed reconnects once you are signed in there. If this persists, allow the IP "
            "address of the agent's computer in its API settings."
        ),
        "not_entitled": later(
            "The account has no API data for this exchange: subscribe under Market Data "
            "Subscriptions in the Client Portal. Or its data limit is used up: few accounts can "
            "follow more than three contracts trade by trade. Choose fewer products and close Time & "
            "Sales windows. We retry every minute."
        ),
        "too_many_sessions": later(
            "The same user is signed in elsewhere, in another Trader Workstation or on a phone, and "
            "receives the data there. Sign out there, or create a second user name for the account."
        ),
        "wrong_entry": later(
            "Another program uses this client ID. Enter a number that none of your other programs uses."
        ),
        "rate_limited": later(
            "Interactive Brokers limits history to 60 requests in 10 minutes. Loading continues "
            "automatically."
        ),
        "unsubscribed": later(
            "Trader Workstation lost its connection to Interactive Brokers and is reconnecting; "
            "check there if this persists. Or the account's data limit is used up: few accounts can "
            "follow more than three contracts trade by trade. Choose fewer products and close Time & "
            "Sales windows."
        ),
        "unknown_contract": later(
            "Interactive Brokers does not know the contract, or the account may not trade futures. "
            "Remove the product, or request the permission in the Client Portal."
        ),
    },
    "tastytrade": {
        "login_refused": later(
            "The grant was revoked, or the secret and token don't match. Create a new grant in your "
            "OAuth application and enter both. We don't retry: tastytrade blocks IP addresses for "
            "hours after several rejections."
        ),
        "login_expired": later(
            "Refresh tokens don't expire: this one was revoked or its application was removed. "
            "Create a new grant and enter it."
        ),
        "not_entitled": later(
            "The account is not enabled for futures, or its data is delayed. Ask tastytrade to "
            "enable real-time futures data."
        ),
        "not_allowed": later(
            "tastytrade does not allow this: the grant lacks the `read` scope, or the account is "
            "restricted. Create a grant with that scope, or ask tastytrade."
        ),
        "too_many_sessions": later(
            "The streamer limits simultaneous connections. Close other programs that stream, then try again."
        ),
    },
    "tradovate": {
        "login_refused": later(
            "The user name, password, API key ID and API secret must all be correct, and the API "
            "add-on active. Sign in on Tradovate's own page first: after failed attempts it may ask "
            "for more there."
        ),
        "login_expired": later(
            "The password was changed, or the API key has expired. Create a new key in Tradovate's "
            "settings and enter all credentials again."
        ),
        "not_entitled": later(
            "The market data agreement for API use is missing or does not cover this exchange. Ask "
            "Tradovate: access in its own program is not enough."
        ),
        "too_many_sessions": later(
            "Tradovate limits how many programs one user can sign in with. Close the others, then try again."
        ),
        "rate_limited": later(
            "Tradovate imposed a waiting time, as it does after failed sign-ins. We retry when it is over."
        ),
        "not_allowed": later(
            "Tradovate wants proof that you are a person, or does not allow this user market data "
            "through the API. Sign in on its page, open a chart and approve the new device by email. "
            "Then try again."
        ),
    },
    "projectx": {
        "login_refused": later(
            "The API key was regenerated in the platform, or belongs to another user name or firm. "
            "Enter the new key, and the user name exactly as the platform shows it."
        ),
        "login_expired": later(
            "The 24-hour token was not renewed: the API key has expired. Create a new one in the platform."
        ),
        "not_entitled": later(
            "The account has no market data, or API access is not subscribed. Check the platform's "
            "settings, or ask your firm."
        ),
        "too_many_sessions": later(
            "The platform allows one session of this type at a time. Close the others, then try again."
        ),
        "not_allowed": later(
            "The platform's agreements are not signed, or the firm has disabled API keys or does not "
            "allow your location. Sign in to the platform once, read the firm's rules, and run the "
            "agent on your own computer without a VPN."
        ),
        "rate_limited": later(
            "History is limited to 30 requests in 30 seconds. Loading continues automatically."
        ),
    },
    "massive": {
        "login_refused": later(
            "The key was replaced or is incomplete. Enter the one that the portal shows now."
        ),
        "not_entitled": later(
            "The plan has no real-time futures data for this exchange. Delayed plans can't provide "
            "live data. Change the plan in the portal."
        ),
        "too_many_sessions": later(
            "The plan limits simultaneous connections, often to one. Close the other program, then try again."
        ),
    },
    "hyperliquid": {
        "wrong_entry": later(
            "Hyperliquid's terms of use have a newer version. Read them, then accept that version under "
            "Update credentials."
        ),
        "vendor_error": later(
            "Hyperliquid did not answer the request. It refuses some countries: read its terms. Otherwise we'll keep "
            "retrying."
        ),
        "rate_limited": later(
            "Hyperliquid limits requests per IP address. Close other programs that use it. Loading continues "
            "automatically."
        ),
    },
}
#: Codes that have texts, and vendors that have their own remedies.
CODES, VENDORS = frozenset(_CODES), frozenset(_CURES)
#: Codes of conditions that end without any action of the user.
PASSING = frozenset(
    {
        "disconnected",
        "unreachable",
        "link_silent",
        "seam_overflow",
        "rate_limited",
        "vendor_error",
        "protocol",
    }
)
GUIDE = "/broker-guide"


def code_means(words: Words, code: str) -> str | None:
    """Return what a connection's code means, in words; None if it is not a connection code."""
    found = _CODES.get(code)
    return words(found[0]) if found else None


def cure_of(words: Words, broker: str, code: str) -> str:
    """Return what to do about a connection's code, in words; empty if there is no text for it."""
    found = _CURES.get(broker, {}).get(code) or _CODES.get(code, ("", ""))[1]
    return words(found) if found else ""


def guide_address(broker: str, code: str) -> str:
    """Return the URL path of a code's section in the broker guide."""
    if code in _CURES.get(broker, {}):
        return f"{GUIDE}#{broker}-{code}"
    return f"{GUIDE}#vendor-{code}" if code in _CODES else f"{GUIDE}#state-{code}"


def own_codes(broker: str) -> tuple[str, ...]:
    """Return the codes for which the guide has instructions specific to this vendor, in the guide's order."""
    kept = _CURES.get(broker, {})
    return tuple(code for code in _CODES if code in kept)


def common_codes() -> tuple[str, ...]:
    """Return the codes that any vendor may report."""
    return tuple(_CODES)
