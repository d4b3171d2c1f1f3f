"""Every route declares exactly one right, and answers for the unseen come from one place. A lint, kept as a test."""

import ast
from pathlib import Path

import pytest

from api.access import Needs, Right
from api.app import create_app
from api.openapi import api_routes, needs_of

ROUTES = list(api_routes(create_app(None)))
API = Path(__file__).parents[2] / "api"


@pytest.mark.parametrize(("path", "route"), ROUTES, ids=[route.name for _, route in ROUTES])
def test_a_route_declares_exactly_one_right(path: str, route: object) -> None:
    found = list(needs_of(route.dependant))  # type: ignore[attr-defined]
    assert len(found) == 1, path
    assert isinstance(found[0].right, Right)


def test_only_what_sign_in_needs_is_open() -> None:
    open_ones = {route.name for _, route in ROUTES for needs in needs_of(route.dependant) if needs.right is Right.NONE}
    assert open_ones == {"read_info", "read_health", "list_realms", "sign_in", "answer_second_factor"}


def test_the_lint_sees_a_route_without_a_right() -> None:
    """The check itself is checked: a route without a declaration must be found."""
    from fastapi import APIRouter

    router = APIRouter()

    @router.get("/bare")
    async def bare() -> None:
        """Nothing declared."""

    assert not list(needs_of(router.routes[0].dependant))  # type: ignore[attr-defined]
    assert issubclass(type(next(needs_of(ROUTES[0][1].dependant))), Needs)


@pytest.mark.parametrize("file", sorted(API.rglob("*.py")), ids=lambda file: file.name)
def test_rooms_stay_small_and_say_no_empty_words(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") < 400
    assert "went wrong" not in text.lower()
    names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert not names & {"utcnow"}
    if file.name != "main.py":
        # The time comes from the clock that is handed in.
        assert "datetime.now(" not in text
