"""The built pages: files by their names, and the one page for every address that the pages route themselves."""

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
            caching = FOREVER if path.startswith(f"{HASHED}/") else ALWAYS_ASK
            return FileResponse(file, headers={"Cache-Control": caching})
        if "." in path.rsplit("/", 1)[-1]:
            return answer(no_such_address().problem())
        return FileResponse(root / "index.html", headers={"Cache-Control": ALWAYS_ASK})

    app.router.add_route("/{path:path}", page, methods=["GET", "HEAD"], include_in_schema=False)
