"""Readable names of browsers, for the list of the user's signed-in browsers.

Only common browsers are recognised; for others the name is the first word of the user agent.
"""

from outcry.web.language import Words

#: Checked in this order, because most browsers also name others in their user agent.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)
_LONGEST = 40


def device(words: Words, agent: str) -> str:
    """Return a readable name for a user agent, for example `Firefox on Linux`."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    if browser and system:
        return words("%(browser)s on %(system)s", browser=browser, system=system)
    return browser or system or agent.split(" ", maxsplit=1)[0][:_LONGEST] or words("Unknown browser")
