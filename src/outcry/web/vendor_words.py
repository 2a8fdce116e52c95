"""What a connection's codes mean, and what ends each: for all vendors, and where one of them has a remedy of its own.

Rules kept: a code is the adapter's, its words are the pages'; the same words stand on a connection's page and in the
broker guide, at the address given here. What is known of a vendor's terms from others only is said to be asked there.
"""

from collections.abc import Mapping

from outcry.web.language import Words, later

#: Of every vendor: what a code means, and what to do; nothing where it passes by itself.
_CODES: Mapping[str, tuple[str, str]] = {
    "disconnected": (
        later("The connection broke off."),
        later("It is made again by itself, at growing intervals up to a minute."),
    ),
    "unreachable": (
        later("The vendor cannot be reached: its name is not found, or it does not answer."),
        later(
            "It is tried again by itself. If it stays so, look at the vendor's status page, and at the network."
        ),
    ),
    "link_silent": (
        later("The connection stands, but nothing comes by it, not even signs of life."),
        later("It is made anew by itself."),
    ),
    "seam_overflow": (
        later("More came in than may wait while history was fetched."),
        later("It is begun again by itself; with fewer symbols it is quicker."),
    ),
    "rate_limited": (
        later("The vendor asks for fewer requests."),
        later(
            "It goes on by itself after a pause. End other programs that use the same account, if it stays so."
        ),
    ),
    "vendor_error": (
        later("The vendor tells of a fault of its own."),
        later("It is tried again by itself. If it stays so, look at the vendor's status page."),
    ),
    "protocol": (
        later("What the vendor sent cannot be read."),
        later(
            "It is tried again by itself. If it stays so, tell the operator: the vendor may have changed its form."
        ),
    ),
    "login_refused": (
        later("The vendor does not accept what was entered to sign in."),
        later("Enter it anew. After two refusals nothing more is tried, so that the account is not locked."),
    ),
    "login_expired": (
        later("The sign-in with the vendor has ended: its key, token or password holds no more."),
        later("Make a new one there, and enter it."),
    ),
    "not_entitled": (
        later("The account at the vendor lacks the right to these real-time data."),
        later("Subscribe to the exchange's data there, then try again."),
    ),
    "unknown_contract": (
        later("The vendor has no contract of this name."),
        later("Leave the product out, or ask the vendor what it is called there."),
    ),
    "too_many_sessions": (
        later("The account is in use by too many programs at once."),
        later("End the others, then try again."),
    ),
    "not_allowed": (
        later("The vendor forbids this connection to the account, or from this place."),
        later("Read the vendor's rules; run it on your own machine where they ask for that."),
    ),
    "wrong_entry": (
        later("The vendor cannot use one of the entries."),
        later("Enter them anew."),
    ),
    "unsubscribed": (
        later("The vendor does not send this contract."),
        later("Look there whether the subscription to the exchange's data still stands."),
    ),
    "paused": (later("It rests, as it was told to."), later("Resume it when you want it back.")),
    "not_installed": (
        later("What this service needs for this vendor is not installed any more."),
        later("Its operator has to install it."),
    ),
    "not_hosted": (
        later("This service may not connect this vendor any more."),
        later("Connect it by the agent on your own machine."),
    ),
    "entries_lost": (
        later("What was entered can no longer be opened: the service's key for it is another one."),
        later("Enter it anew."),
    ),
    "pushed": (
        later("A program of yours sends a feed of this name already."),
        later("End that program, then try again."),
    ),
    "agent_stopped": (
        later("The agent on your own machine was stopped."),
        later("Start it again there: outcry agent."),
    ),
    "no_room": (
        later("The agent's machine has no room left for what comes."),
        later("Make room on its disk: it goes on by itself."),
    ),
}
#: Where a vendor has a remedy of its own.
_CURES: Mapping[str, Mapping[str, str]] = {
    "databento": {
        "login_refused": later(
            "The key was revoked, is not complete, or is of another team. Make a new one in Databento's portal, under "
            "API keys, and enter it."
        ),
        "login_expired": later(
            "The key was deactivated, in the portal or by Databento. Make a new one there, under API keys, and enter "
            "it."
        ),
        "not_entitled": later(
            "The key's team has no live subscription to GLBX.MDP3, or the exchange's agreement is not signed yet: see "
            "the plan in Databento's portal. Access to history alone does not include live data."
        ),
        "too_many_sessions": later(
            "The team has as many live connections as its plan allows, ten as a rule. End those of other programs, "
            "then try again."
        ),
        "unknown_contract": later(
            "GLBX.MDP3 lists no such contract on this day: it has expired, or is not listed yet. Leave the product out."
        ),
    },
    "ibkr": {
        "unreachable": later(
            "Trader Workstation or IB Gateway does not run, its API is not enabled, or the port is another: Gateway "
            "has 4001 (paper 4002), Trader Workstation 7496 (paper 7497), unless they were changed."
        ),
        "disconnected": later(
            "Trader Workstation was closed, restarts as it does once a day, or lost its own line. It is connected "
            "again by itself once somebody is signed in there. If it stays so, let the address of the agent's machine "
            "in, in its API settings."
        ),
        "not_entitled": later(
            "The account has no data of this exchange for use through the API: subscribe under Market Data "
            "Subscriptions in the Client Portal. Or its allowance is used up: few accounts can follow more than three "
            "contracts trade by trade at once. Choose fewer products and close Time & Sales windows; it is tried "
            "again each minute."
        ),
        "too_many_sessions": later(
            "The same user is signed in elsewhere, in another Trader Workstation or on the phone, and takes the data. "
            "Sign out there, or have a second user name made for the account."
        ),
        "wrong_entry": later(
            "Another program uses this client id. Enter a number that no other program of yours uses."
        ),
        "rate_limited": later(
            "Interactive Brokers hands out history slowly: sixty requests in ten minutes. It goes on by itself."
        ),
        "unsubscribed": later(
            "Either Trader Workstation has lost its own line to Interactive Brokers, and makes it again: look there "
            "if it stays so. Or the account's allowance is used up: few can follow more than three contracts trade by "
            "trade at once. Then choose fewer products, and close Time & Sales windows."
        ),
        "unknown_contract": later(
            "Interactive Brokers does not know the contract, or the account may not trade futures. Leave the product "
            "out, or ask for the permission in the Client Portal."
        ),
    },
    "tastytrade": {
        "login_refused": later(
            "The grant was revoked, or secret and token do not belong together. Make a new grant in your OAuth "
            "application and enter both. Nothing is tried meanwhile: tastytrade blocks addresses for hours after "
            "several refusals."
        ),
        "login_expired": later(
            "The refresh token does not end by itself: it was revoked, or its application was removed. Make a new "
            "grant and enter it."
        ),
        "not_entitled": later(
            "The account is not enabled for futures, or its data are delayed: ask tastytrade to enable real-time "
            "futures data."
        ),
        "not_allowed": later(
            "tastytrade does not allow this to the grant: it lacks the scope `read`, or the account is restricted. "
            "Make a grant with that scope, or ask tastytrade."
        ),
        "too_many_sessions": later(
            "The streamer allows only so many connections at once. Close other programs that stream, then try again."
        ),
    },
    "tradovate": {
        "login_refused": later(
            "User name, password, and the id and secret of the API key have to be right together, and the API add-on "
            "active. Sign in on Tradovate's own page first: after wrong tries it may ask there for more."
        ),
        "login_expired": later(
            "The password was changed, or the API key has ended. Make a new key in Tradovate's settings and enter "
            "everything anew."
        ),
        "not_entitled": later(
            "The market data agreement for use through the API is missing, or does not hold this exchange. Ask "
            "Tradovate: the data you see in its own program are not enough."
        ),
        "too_many_sessions": later(
            "Tradovate limits how many programs are signed in with one user. End the others, then try again."
        ),
        "rate_limited": later(
            "Tradovate asks to wait, as it does after wrong tries to sign in. It is tried again by itself, not earlier."
        ),
        "not_allowed": later(
            "Tradovate wants proof that a person asks, or does not let this user have market data through the API. "
            "Sign in on its own page, open a chart there, and approve the new device by the mail it sends; then try "
            "again."
        ),
    },
    "projectx": {
        "login_refused": later(
            "The API key was made anew in the platform, or belongs to another user name or firm. Enter the new one, "
            "with the user name exactly as the platform shows it."
        ),
        "login_expired": later(
            "The token of 24 hours was not renewed: the API key has ended. Make a new one in the platform."
        ),
        "not_entitled": later(
            "The account has no market data, or API access is not subscribed. Look in the platform's settings, or ask "
            "your firm."
        ),
        "too_many_sessions": later(
            "The platform allows one session of this kind at a time. Close the others, then try again."
        ),
        "not_allowed": later(
            "The platform's agreements are not signed, or the firm has switched API keys off, or forbids the place you "
            "connect from: sign in to the platform once, read the firm's rules, and run the agent on your own "
            "computer, without a VPN."
        ),
        "rate_limited": later(
            "History is limited to thirty requests in thirty seconds. It goes on by itself."
        ),
    },
    "massive": {
        "login_refused": later(
            "The key was replaced or is not complete. Enter the one that the portal shows now."
        ),
        "not_entitled": later(
            "The plan has no real-time futures of this exchange. A plan with delayed data does not answer live: change "
            "it in the portal."
        ),
        "too_many_sessions": later(
            "The plan allows only so many connections at once, often one. End the other program, then try again."
        ),
    },
}
#: Codes there are words for, and vendors with remedies of their own.
CODES, VENDORS = frozenset(_CODES), frozenset(_CURES)
#: What ends them by themselves, without anybody's doing.
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
    """What a code means; None of one that is not of a connection."""
    found = _CODES.get(code)
    return words(found[0]) if found else None


def cure_of(words: Words, broker: str, code: str) -> str:
    """What to do about a code; empty where there is nothing to do."""
    found = _CURES.get(broker, {}).get(code) or _CODES.get(code, ("", ""))[1]
    return words(found) if found else ""


def guide_address(broker: str, code: str) -> str:
    """Where the guide says it."""
    if code in _CURES.get(broker, {}):
        return f"{GUIDE}#{broker}-{code}"
    return f"{GUIDE}#vendor-{code}" if code in _CODES else f"{GUIDE}#state-{code}"


def own_codes(broker: str) -> tuple[str, ...]:
    """Codes for which a vendor has a remedy of its own, in the order in which they are met."""
    kept = _CURES.get(broker, {})
    return tuple(code for code in _CODES if code in kept)


def common_codes() -> tuple[str, ...]:
    """Codes that every vendor may give."""
    return tuple(_CODES)
