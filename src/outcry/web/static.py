"""Static files (styles, scripts, fonts) under URLs that change with their content.

The content of a URL never changes, so it can be cached forever. Files are read once at start.
"""

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from outcry.http.compression import best_encoding, prepared

FOLDER = Path(__file__).parent / "static"
_TEXT = {".js", ".mjs", ".css", ".svg", ".json", ".txt"}
_TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".woff2": "font/woff2"}


@dataclass(frozen=True, slots=True)
class File:
    """One file, and its compressed variants if they are smaller."""

    body: bytes
    small: Mapping[str, bytes]
    media_type: str


class StaticFiles:
    """All files of `static/`. They share one version in the URL because scripts import each other by relative paths."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        whole = sha256()
        for name, file in self._files.items():
            whole.update(name.encode() + b"\0" + file.body)
        self.version = whole.hexdigest()[:12]

    def url(self, name: str) -> str:
        """Return the URL of a file. Raises `KeyError` for an unknown file."""
        self._files[name]
        return f"/static/{self.version}/{name}"

    async def serve(self, request: Request) -> Response:
        """Answer a request for a static file."""
        file = self._files.get(request.path_params["name"])
        if file is None or request.path_params["version"] != self.version:
            return Response(status_code=404, headers={"cache-control": "no-store"})
        encoding = best_encoding(request.headers.get("accept-encoding", ""), tuple(file.small))
        headers = {
            "cache-control": "public, max-age=31536000, immutable",
            "vary": "accept-encoding",
            "cross-origin-resource-policy": "same-origin",
        }
        if encoding is None:
            return Response(file.body, media_type=file.media_type, headers=headers)
        headers["content-encoding"] = encoding
        return Response(file.small[encoding], media_type=file.media_type, headers=headers)

    async def icon(self, _: Request) -> Response:
        """Redirect to the URL of the site icon."""
        return RedirectResponse(self.url("icon.svg"), headers={"cache-control": "public, max-age=3600"})


def _read(path: Path) -> File:
    body = path.read_bytes()
    small = prepared(body) if path.suffix in _TEXT else {}
    guessed = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return File(body, small, guessed)
