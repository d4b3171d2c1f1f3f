"""The built pages: files by their names, and the one page for every address that the pages route themselves."""

import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import FileResponse, Response

from api.problems import answer, no_such_address

HASHED = "assets"
"""Vite names these files by their contents, so they never change."""
FOREVER = "public, max-age=31536000, immutable"
ALWAYS_ASK = "no-cache"


def install(app: FastAPI, folder: Path) -> None:
    """Serves the folder. Addresses under the API's prefix never fall back to a page."""
    root = folder.resolve()

    async def page(request: Request) -> Response:
        path = request.path_params["path"]
        if f"/{path}".startswith("/api/") or path == "api":
            return answer(no_such_address().problem())
        file = (root / path).resolve()
        # `resolve` has followed every `..` and link: what ends outside the folder is not ours to give.
        if path and file.is_relative_to(root) and file.is_file():
            return _sent(request, file, FOREVER if path.startswith(f"{HASHED}/") else ALWAYS_ASK)
        if "." in path.rsplit("/", 1)[-1]:
            return answer(no_such_address().problem())
        return _sent(request, root / "index.html", ALWAYS_ASK)

    app.router.add_route("/{path:path}", page, methods=["GET", "HEAD"], include_in_schema=False)


def _sent(request: Request, file: Path, caching: str) -> Response:
    """The file, packed where the build left a packed one beside it and the browser takes it."""
    headers = {"Cache-Control": caching, "Vary": "Accept-Encoding"}
    packed = file.with_name(f"{file.name}.gz")
    if "gzip" not in request.headers.get("accept-encoding", "") or not packed.is_file():
        return FileResponse(file, headers=headers)
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return FileResponse(packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
