"""Puts the application together: routes, error answers, headers, pages and the OpenAPI document."""

from pathlib import Path

from fastapi import APIRouter, FastAPI

from api import (
    audit,
    charts,
    cluster_details,
    clusters,
    events,
    headers,
    info,
    jobs,
    pages,
    problems,
    sessions,
    sites,
    templates,
)
from api.openapi import describe
from api.services import Services, Settings

PREFIX = "/api/v1"
ROUTERS = (
    info.router,
    sessions.router,
    sites.router,
    templates.router,
    charts.router,
    clusters.router,
    cluster_details.router,
    jobs.router,
    events.router,
    audit.router,
)


def create_app(services: Services | None) -> FastAPI:
    """The ASGI application over the given services. None is enough to read the routes and the OpenAPI document."""
    settings = services.settings if services else Settings()
    app = FastAPI(
        title="Trilithon",
        version=settings.version,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        generate_unique_id_function=lambda route: route.name,
        # Two addresses for one thing would be two lines in every log and rule.
        redirect_slashes=False,
    )
    app.state.services = services
    app.state.prefix = PREFIX
    app.state.routers = ROUTERS
    api = APIRouter(prefix=PREFIX)
    for router in ROUTERS:
        api.include_router(router)
    app.include_router(api)
    if settings.pages is not None:
        pages.install(app, Path(settings.pages))
    problems.install(app)
    app.add_middleware(headers.Headers, api_prefix="/api", tls=settings.secure_cookie)
    describe(app)
    return app
