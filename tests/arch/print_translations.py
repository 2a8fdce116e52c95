"""Print the translations of the texts on standard input, by the imported package: for tests/arch/test_wheel.py."""

import json
import sys

import outcry
from outcry.http.messages import load_catalogue
from outcry.web.language import Languages


def main() -> None:
    """Write the package's path and its German texts as JSON."""
    words, messages, asked = Languages.words("de"), load_catalogue(), json.load(sys.stdin)
    translations = {text: words(text) for text in asked["texts"]}
    for one, many in asked["counted"]:
        translations |= {f"{one} {n}": words.ngettext(one, many, n) for n in (0, 1, 2)}
    for code in asked["codes"]:
        translations |= {
            f"{code} {language}": messages.text(language, code, code, {}) for language in ("de", "en")
        }
    json.dump({"at": outcry.__file__, "translations": translations}, sys.stdout)


if __name__ == "__main__":
    main()
