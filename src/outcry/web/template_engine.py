"""Page templates. All values are escaped unless they are our own markup.

An unknown name in a template is an error. A template can render a part of its page with `part(name, …)`. Equal values
give the same text, so a part whose values have not changed is not rendered again.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from outcry import __version__
from outcry.base.extras import install_command
from outcry.base.timestamps import iso_timestamp
from outcry.web.language import Words
from outcry.web.static import StaticFiles

#: A row of the Levels page takes about 6 kB, key and text.
_MAX_PARTS = 1024


class Templates:
    """The templates of `templates/`, in every language. Thread-safe."""

    def __init__(self, static: StaticFiles, **shared: Any) -> None:
        self._static, self._shared = static, shared
        self._environment = cache(self._build)
        self._lock = threading.Lock()
        #: Rendered parts by language, template and encoded values, least recently used first.
        self._parts: OrderedDict[tuple[str, str, bytes], Markup] = OrderedDict()

    def render(self, name: str, words: Words, values: Mapping[str, Any]) -> str:
        """Render a template."""
        return self._environment(words).get_template(name).render(values)

    def _part(self, words: Words, name: str, /, **values: Any) -> Markup:
        """Return a rendered part of a page. If it was rendered with equal values before, return the cached text.

        values: plain data (as msgspec can encode), and no secrets, because they stay in memory. A part depends on its
        language and values only. So it never becomes outdated, and users with equal values may share it.
        """
        key = (words.language, name, msgspec.msgpack.encode(values))
        with self._lock:
            if (known := self._parts.get(key)) is not None:
                self._parts.move_to_end(key)
                return known
        part = Markup(self.render(name, words, values))  # noqa: S704 - a template's output is escaped
        with self._lock:
            self._parts[key] = part
            while len(self._parts) > _MAX_PARTS:
                self._parts.popitem(last=False)
        return part

    def _build(self, words: Words) -> Environment:
        environment = Environment(
            loader=PackageLoader("outcry.web"),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            extensions=["jinja2.ext.i18n"],
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.install_gettext_translations(words, newstyle=True)  # pyright: ignore[reportAttributeAccessIssue]
        environment.filters["instant"] = iso_timestamp
        own: dict[str, Any] = {
            "static": self._static.url,
            "version": __version__,
            "install_command": install_command,
            "part": partial(self._part, words),
        }
        environment.globals |= own | self._shared
        return environment
