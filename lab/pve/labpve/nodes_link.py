"""The link to lab/nodes: what a started VM is. Small JSON calls over plain HTTP (protocol: README, 'Nodes')."""

import aiohttp


class NotRunning(Exception):
    """The machine, or its guest agent, does not answer (409 or 404)."""


class NodesDown(Exception):
    """lab/nodes itself cannot be reached or refused the call; str() says why."""


class NodesLink:
    """Calls lab/nodes; with no address every call does nothing and answers None."""

    def __init__(self, url: str | None) -> None:
        self.url = url.rstrip("/") if url else None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()

    async def call(self, method: str, path: str, body: object = None) -> object:
        """One call; answers its JSON. Raises NotRunning for 404/409 and NodesDown for everything else."""
        if self.url is None:
            return None
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120))
        try:
            async with self._session.request(method, self.url + path, json=body) as answer:
                if answer.status in (404, 409):
                    raise NotRunning(await answer.text())
                if answer.status >= 400:
                    raise NodesDown(f"{method} {path}: {answer.status} {(await answer.text())[:500]}")
                return await answer.json(content_type=None) if answer.status != 204 else None
        except (aiohttp.ClientError, TimeoutError, OSError) as e:
            raise NodesDown(f"{method} {path}: {e!r}") from e
