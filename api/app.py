"""Puts the application together: routes, error answers, headers, pages and the OpenAPI document."""

from fastapi import APIRouter, FastAPI

from api import (
    audit,
    cluster_details,
    clusters,
    events,
    info,
    jobs,
    problems,
    sessions,
    sites,
    templates,
)
from api.openapi import describe
from api.services import Services

PREFIX = "/api/v1"
ROUTERS = (
    info.router,
    sessions.router,
    sites.router,
    templates.router,
    clusters.router,
    cluster_details.router,
    jobs.router,
    events.router,
    audit.router,
)


def create_app(services: Services | None) -> FastAPI:
    """The ASGI application over the given services. None is enough to read the routes and the OpenAPI document."""
    app = FastAPI(
        title="Trilithon",
        version=services.settings.version if services else "0.1.0",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    app.state.prefix = PREFIX
    app.state.routers = ROUTERS
    api = APIRouter(prefix=PREFIX)
    for router in ROUTERS:
        api.include_router(router)
    app.include_router(api)
    problems.install(app)
    describe(app)
    return app
