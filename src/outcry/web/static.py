"""Static files (styles, scripts, fonts) under URLs that change with the files' content.

So the file at a URL never changes, and browsers can cache it forever. Files are read and joined at start (see
`joining`), and compressed when they are first requested.
"""

import asyncio
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from outcry.http.compression import best_encoding, prepared
from outcry.web.joining import joined_scripts, joined_styles

FOLDER = Path(__file__).parent / "static"
_TEXT = {".js", ".mjs", ".css", ".svg", ".json", ".txt"}
_TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".woff2": "font/woff2"}
#: Folders whose files are joined.
_JOINED: Mapping[str, Callable[[Mapping[str, str]], Mapping[str, str]]] = {
    "js": joined_scripts,
    "css": joined_styles,
}


@dataclass(frozen=True)
class File:
    """One static file as it is served."""

    name: str
    body: bytes

    @property
    def media_type(self) -> str:
        """The media type, by the extension of the file's name."""
        suffix = Path(self.name).suffix
        return _TYPES.get(suffix) or mimetypes.guess_type(self.name)[0] or "application/octet-stream"

    @cached_property
    def small(self) -> Mapping[str, bytes]:
        """The compressed variants by encoding; only those smaller than the file."""
        return prepared(self.body) if Path(self.name).suffix in _TEXT else {}


class StaticFiles:
    """All files of `static/`.

    Their URLs contain one common version, because scripts import each other by relative paths.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {name: File(name, body) for name, body in sorted(_read(folder).items())}
        whole = sha256()
        for file in self._files.values():
            whole.update(file.name.encode() + b"\0" + file.body)
        self.version = whole.hexdigest()[:12]

    def url(self, name: str) -> str:
        """Return the URL of a file. Raises `KeyError` for an unknown file."""
        self._files[name]
        return f"/static/{self.version}/{name}"

    async def serve(self, request: Request) -> Response:
        """Return the static file that a request asks for."""
        file = self._files.get(request.path_params["name"])
        if file is None or request.path_params["version"] != self.version:
            return Response(status_code=404, headers={"cache-control": "no-store"})
        # The first compression takes up to a tenth of a second.
        small = await asyncio.to_thread(lambda: file.small)
        encoding = best_encoding(request.headers.get("accept-encoding", ""), tuple(small))
        headers = {
            "cache-control": "public, max-age=31536000, immutable",
            "vary": "accept-encoding",
            "cross-origin-resource-policy": "same-origin",
        }
        if encoding is None:
            return Response(file.body, media_type=file.media_type, headers=headers)
        headers["content-encoding"] = encoding
        return Response(small[encoding], media_type=file.media_type, headers=headers)

    async def icon(self, _: Request) -> Response:
        """Redirect the path where browsers look for the site icon to the icon's versioned URL."""
        return RedirectResponse(self.url("icon.svg"), headers={"cache-control": "public, max-age=3600"})


def _read(folder: Path) -> dict[str, bytes]:
    """Return all files by path, in the form in which pages load them. Raises `CannotJoin`."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    files = {name: path.read_bytes() for name, path in paths.items() if name.partition("/")[0] not in _JOINED}
    for top, join in _JOINED.items():
        texts = {
            path.relative_to(folder / top).as_posix(): path.read_text("utf-8")
            for name, path in paths.items()
            if name.startswith(f"{top}/")
        }
        files |= {f"{top}/{name}": text.encode() for name, text in join(texts).items()}
    return files
