"""Where the command line keeps which Trilithon it speaks to, and its session there.

`$XDG_CONFIG_HOME/trilithon/config.yaml` holds contexts as a kubeconfig does; the session's secret halves lie beside it
in a file that only its owner may read. Nothing secret is ever taken from an argument.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Context:
    """One Trilithon: its address and, once signed in, the session."""

    name: str = "default"
    url: str = DEFAULT_URL
    cookies: tuple[tuple[str, str], ...] = ()
    csrf: str = ""
    user: str = ""

    def signed_in(self, cookies: dict[str, str], csrf: str, user: str) -> "Context":
        return replace(self, cookies=tuple(sorted(cookies.items())), csrf=csrf, user=user)


def folder() -> Path:
    """The folder of our settings: `$TRILITHON_CONFIG`, else below the user's XDG configuration folder."""
    chosen = os.environ.get("TRILITHON_CONFIG")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "trilithon"


def current(name: str | None = None) -> Context:
    """The context of that name, or the current one; a fresh one where none is kept yet."""
    kept = _read("config.yaml")
    chosen = name or os.environ.get("TRILITHON_CONTEXT") or kept.get("current-context") or "default"
    row: dict[str, Any] = next((c for c in kept.get("contexts", []) if c.get("name") == chosen), {})
    session = _read("sessions.yaml").get(chosen, {})
    url = os.environ.get("TRILITHON_URL") or row.get("url") or DEFAULT_URL
    return Context(
        name=chosen,
        url=str(url).rstrip("/"),
        cookies=tuple(sorted((session.get("cookies") or {}).items())),
        csrf=str(session.get("csrf", "")),
        user=str(session.get("user", "")),
    )


def keep(context: Context) -> None:
    """Keeps the context and makes it the current one."""
    kept = _read("config.yaml")
    rest = [c for c in kept.get("contexts", []) if c.get("name") != context.name]
    rest.append({"name": context.name, "url": context.url})
    _write("config.yaml", {"current-context": context.name, "contexts": rest}, 0o644)
    sessions = _read("sessions.yaml")
    sessions[context.name] = {"cookies": dict(context.cookies), "csrf": context.csrf, "user": context.user}
    _write("sessions.yaml", sessions, 0o600)


def _read(name: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load((folder() / name).read_text())
    except FileNotFoundError:
        return {}
    return content if isinstance(content, dict) else {}


def _write(name: str, content: dict[str, Any], mode: int) -> None:
    import yaml

    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / name
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(content, file)
    draft.replace(path)
