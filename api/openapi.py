"""The OpenAPI document; `python -m api.openapi` writes it to standard output.

Beside what FastAPI derives it holds: the right of each route (`x-right`), the problem shape as every route's default
answer, and the shapes of the two event streams, which no route returns as JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.access import Needs
from api.models.events import Change, Reset
from api.models.problems import Problem

BESIDES: tuple[type[BaseModel], ...] = (Problem, Change, Reset)
PROBLEM_ANSWER = {
    "description": "A refusal or failure: what happened to what, and what can be done.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def needs_of(dependant: Dependant) -> Iterator[Needs]:
    """The rights that a route declares, its own and those of its dependencies."""
    for inner in dependant.dependencies:
        if isinstance(inner.call, Needs):
            yield inner.call
        yield from needs_of(inner)


def api_routes(app: FastAPI) -> Iterator[tuple[str, APIRoute]]:
    """The routes of the API with their whole paths, as opposed to pages and the OpenAPI document itself.

    FastAPI includes routers lazily, so `app.routes` does not list them; `create_app` keeps the routers in the state.
    """
    for router in app.state.routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield app.state.prefix + route.path, route


def describe(app: FastAPI) -> None:
    """Makes `app.openapi()` answer with our document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, routes=app.routes, description="Clusters on machines you own."
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _, extra = models_json_schema(
        [(model, "serialization") for model in BESIDES], ref_template="#/components/schemas/{model}"
    )
    for name, schema in extra["$defs"].items():
        schemas.setdefault(name, schema)
    for path, route in api_routes(app):
        for method in route.methods or ():
            operation = document["paths"][path][method.lower()]
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = PROBLEM_ANSWER
            operation["x-right"] = str(next(needs_of(route.dependant)).right)
    return document


def main() -> None:
    """Writes the document, stable in its order, for the pages' and the command line's generators."""
    from api.app import create_app

    json.dump(create_app(None).openapi(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
