"""Page templates. All values are escaped unless they are our own markup.

An unknown name in a template is an error.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from outcry import __version__
from outcry.base.timestamps import iso_timestamp
from outcry.web.language import Words
from outcry.web.static import StaticFiles


class Templates:
    """The templates of `templates/`, in every language."""

    def __init__(self, static: StaticFiles, **shared: Any) -> None:
        self._static, self._shared = static, shared
        self._environment = cache(self._build)

    def render(self, name: str, words: Words, values: Mapping[str, Any]) -> str:
        """Render a template."""
        return self._environment(words).get_template(name).render(values)

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
        shared: dict[str, Any] = {"static": self._static.url, "version": __version__, **self._shared}
        environment.globals |= shared
        return environment
