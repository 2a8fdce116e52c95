"""What a browser calls itself, in the words of a person who looks for a browser of theirs in a list.

Rule kept: only what most people use is told apart; of anything else its own first word is shown.
"""

from outcry.web.language import Words

#: In this order: most browsers also name those they want to be taken for.
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
    """`Firefox on Linux`."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    if browser and system:
        return words("%(browser)s on %(system)s", browser=browser, system=system)
    return browser or system or agent.split(" ", maxsplit=1)[0][:_LONGEST] or words("Unknown browser")
