"""The command line's side of the HTTP API."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cli.contexts import Context, current
from cli.failures import Failure, Refusal

if TYPE_CHECKING:
    import httpx

CHOSEN: dict[str, str | None] = {"context": None}
"""The context that `--context` named, for every command of this process."""
_OPEN: list["Connection"] = []


def close_all() -> None:
    """Closes what the command opened."""
    while _OPEN:
        _OPEN.pop().http.close()


class Connection:
    """Speaks to the API of one context. Problems come out as `Refusal`, silence as `Failure`."""

    def __init__(self, context: Context | None = None) -> None:
        import httpx

        self.context = context or current(CHOSEN["context"])
        self.http = httpx.Client(
            base_url=f"{self.context.url}/api/v1",
            cookies=dict(self.context.cookies),
            timeout=httpx.Timeout(60.0, connect=5.0),
            trust_env=False,
            # Without TLS the authorities of the machine are not read: that alone takes longer than most commands.
            verify=self.context.url.startswith("https:"),
        )
        _OPEN.append(self)

    def get(self, path: str, **query: Any) -> Any:
        return self.send("GET", path, params={k: v for k, v in query.items() if v is not None})

    def send(self, method: str, path: str, **options: Any) -> Any:
        """The decoded answer.

        Raises:
            Refusal: the API's own problem document.
            Failure: nothing answered, or something that is not Trilithon.
        """
        answer = self.answer(method, path, **options)
        return answer.json() if answer.content else None

    def answer(self, method: str, path: str, **options: Any) -> "httpx.Response":
        import httpx

        headers = dict(options.pop("headers", {}))
        if method != "GET":
            headers["X-CSRF-Token"] = self.context.csrf
        try:
            answer = self.http.request(method, path, headers=headers, **options)
        except httpx.HTTPError as error:
            raise self.silent(error) from error
        if answer.status_code >= 400:
            raise self.refusal(answer)
        return answer

    def events(self, path: str, after: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Server-sent events as `(event, data)` until the server ends the stream or the connection breaks."""
        import httpx

        limit = httpx.Timeout(60.0, connect=5.0, read=45.0)
        try:
            with self.http.stream("GET", path, params={"after": after}, timeout=limit) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise self.refusal(answer)
                kind, data = "message", ""
                for line in answer.iter_lines():
                    if line.startswith("event:"):
                        kind = line[6:].strip()
                    elif line.startswith("data:"):
                        data += line[5:].strip()
                    elif not line and data:
                        yield kind, json.loads(data)
                        kind, data = "message", ""
        except httpx.HTTPError as error:
            raise self.silent(error) from error

    def silent(self, error: Exception) -> Failure:
        return Failure(
            f"Trilithon at {self.context.url} does not answer: {error}",
            "Start it with `trilithon up`, or choose another with `trilithon login URL`.",
        )

    def refusal(self, answer: "httpx.Response") -> Failure:
        try:
            problem = answer.json()
        except ValueError:
            return Failure(f"{self.context.url} answered {answer.status_code} {answer.reason_phrase}; is it Trilithon?")
        # A refused sign-in is a 401 too, and says what is wrong with it.
        if problem.get("code") == "not-signed-in" and not self.context.csrf:
            return Failure("You are not signed in.", "Sign in with `trilithon login`.")
        return Refusal(problem)
