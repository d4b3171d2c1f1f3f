"""Signing in and out."""

import sys
from typing import Annotated, Any

import typer

from cli.connection import CHOSEN, Connection
from cli.contexts import Context, current, keep
from cli.failures import USAGE, Failure
from cli.output import say, write


def login(
    url: Annotated[
        str | None, typer.Argument(help="Address of Trilithon; the current context's when left out.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="User name, with or without @realm.")] = None,
    realm: Annotated[str | None, typer.Option(help="Realm; the site's default when left out.")] = None,
    site: Annotated[str | None, typer.Option(help="Site to sign in to, where there are several.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password (and a code on a second line) from stdin.")
    ] = False,
) -> None:
    """Sign in with a Proxmox VE account, or as the local administrator (realm local)."""
    context = current(CHOSEN["context"])
    if url:
        context = Context(name=context.name, url=url.rstrip("/"))
    api = Connection(Context(name=context.name, url=context.url))
    ask = _Prompts(password_stdin)
    user = user or ask.line("User name: ")
    if realm is None and "@" in user:
        user, _, realm = user.rpartition("@")
    realm = realm or _default_realm(api, site)
    body = {"site": site, "realm": realm, "username": user, "password": ask.secret("Password: ")}
    if realm == "local":
        body["site"] = None
    answer = api.send("POST", "/session", json=body)
    if "second_factor" in answer:
        answer = _second_factor(api, answer["second_factor"], ask)
    keep(context.signed_in(dict(api.http.cookies.items()), answer["csrf"], answer["user"]))
    say(f"Signed in to {context.url} as {answer['user']}" + (f" on site {answer['site']}." if answer["site"] else "."))


def logout() -> None:
    """Sign out; the session's ticket is forgotten on both sides."""
    api = Connection()
    if api.context.csrf:
        api.answer("DELETE", "/session")
    keep(Context(name=api.context.name, url=api.context.url))
    say("Signed out.")


def whoami() -> None:
    """Say who is signed in, and where."""
    session = Connection().get("/session")
    write(f"{session['user']}" + (f" on site {session['site']}" if session["site"] else " (local administrator)"))


def _default_realm(api: Connection, site: str | None) -> str:
    offered = api.get("/realms", site=site)["realms"]
    chosen = next((r for r in offered if r["default"]), offered[0] if offered else {"realm": "local"})
    return str(chosen["realm"])


def _second_factor(api: Connection, challenge: dict[str, Any], ask: "_Prompts") -> Any:
    if not challenge["kinds"]:
        others = ", ".join(challenge.get("other_kinds") or [])
        raise Failure(f"This account asks for {others}, which is not supported yet.", "Add a TOTP factor to it.")
    kind = challenge["kinds"][0]
    code = ask.secret("Code of your authenticator: " if kind == "totp" else "Recovery code: ")
    body = {"challenge_id": challenge["challenge_id"], "kind": kind, "code": code}
    return api.send("POST", "/session/second-factor", json=body)


class _Prompts:
    """Asks on the terminal, or reads line by line from standard input; never waits for input that cannot come."""

    def __init__(self, from_stdin: bool) -> None:
        self._from_stdin = from_stdin

    def line(self, prompt: str) -> str:
        self._refuse_without_terminal("--user")
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return sys.stdin.readline().strip()

    def secret(self, prompt: str) -> str:
        if self._from_stdin:
            return sys.stdin.readline().rstrip("\n")
        self._refuse_without_terminal("--password-stdin")
        import getpass

        return getpass.getpass(prompt)

    def _refuse_without_terminal(self, instead: str) -> None:
        if not sys.stdin.isatty():
            raise Failure("There is no terminal to ask on.", f"Use {instead}.", code=USAGE)
