"""Helm releases, each call in a subprocess that can be killed."""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.crossings import UNWATCHED, Crossing

MANAGER = "trilithon-helm"
"""The field manager of everything that Helm applies for us: the name that its process is started by."""


@dataclass(frozen=True)
class ReleaseObject:
    """One object of a release, by its name."""

    kind: str
    name: str
    namespace: str


class HelmError(Exception):
    """Helm refused; the text is its own, one line.

    `final`: the chart or its values are wrong, and no repetition mends that. `objects` are those of the release that
    failed, where Helm got that far.
    """

    def __init__(self, text: str, *, final: bool = False, objects: tuple[ReleaseObject, ...] = ()) -> None:
        super().__init__(text)
        self.final = final
        self.objects = objects


class HelmTimeout(HelmError):
    """Helm did not answer within the limit and its process was killed. The release is looked at by the next try."""


GRACE = 5.0
"""Seconds without a word from us after which the subprocess ends: whoever is stopped must not leave it at work."""
_WORD_EVERY = 0.5
_FINAL = ("HelmChartInvalidError", "HelmChartLoadError", "HelmRenderError", "HelmValuesError")


@dataclass(frozen=True)
class Release:
    """A release as Helm reports it. `status` is Helm's own word (`deployed`, `failed`, `pending-install` ...)."""

    name: str
    namespace: str
    revision: int
    status: str
    chart: str


class Helm:
    """Brings releases about in one cluster.

    Args:
        kubeconfig: its text; it reaches the subprocess by standard input, never by a file or an argument.
        limit: seconds for one call, after which the subprocess is killed.
        crossing: told of every mutating call (crash-point tests).
        held: asked all the time whether we may still act; when not, the subprocess is killed.
    """

    worker = "clients.charts.worker"
    """The module that runs as the subprocess."""

    def __init__(
        self,
        kubeconfig: str,
        *,
        limit: float = 60.0,
        crossing: Crossing = UNWATCHED,
        held: Callable[[], bool] = lambda: True,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._limit = limit
        self._crossing = crossing
        self._held = held

    async def find(self, name: str, namespace: str) -> Release | None:
        """The release's newest revision, or None."""
        answer = (await self._call({"do": "find", "name": name, "namespace": namespace}))["release"]
        return _release(answer) if answer else None

    async def ensure(self, name: str, namespace: str, chart: str, values: dict[str, Any], *, version: str) -> Release:
        """Installs or upgrades the release so that it runs `chart` with `values`.

        The newest revision is looked at first: the same chart and values, deployed, are left alone; a release left
        half done by a killed process is taken back to its last deployed revision (or removed where there is none).

        Raises:
            HelmError: Helm or the API server refused.
            HelmTimeout: no answer within the limit.
        """
        order = {"do": "ensure", "name": name, "namespace": namespace, "chart": chart, "values": values}
        self._crossing.before("helm ensure")
        answer = await self._call({**order, "version": version})
        self._crossing.after("helm ensure")
        return _release(answer["release"])

    async def render(self, name: str, namespace: str, chart: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The chart's objects with these values; no cluster is asked.

        Raises:
            HelmError: the chart or its values are wrong.
            HelmTimeout: no answer within the limit.
        """
        order = {"do": "render", "name": name, "namespace": namespace, "chart": chart, "values": values}
        return list((await self._call(order))["objects"])

    async def _call(self, order: dict[str, Any]) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            # Beside the interpreter, so that Python still finds its environment by it.
            str(Path(sys.executable).with_name(MANAGER)),
            "-m",
            self.worker,
            executable=sys.executable,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        message = json.dumps({**order, "kubeconfig": self._kubeconfig, "limit": self._limit, "grace": GRACE})
        words = asyncio.create_task(self._keep_word(process, f"{message}\n".encode()))
        try:
            out, err = await asyncio.wait_for(_whole_output(process), self._limit)
        except TimeoutError:
            raise HelmTimeout(
                f"Helm gave no answer within {self._limit:.0f} s ({order['do']} {order['name']})"
            ) from None
        finally:
            words.cancel()
            await asyncio.gather(words, return_exceptions=True)
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0 and not self._held():
            raise HelmError("its turn ended before Helm did: the store did not answer, or this worker was stopped")
        if process.returncode != 0:
            last = err.decode(errors="replace").strip().splitlines()
            raise HelmError(f"Helm ended with code {process.returncode}: {last[-1] if last else 'no text'}")
        answer = json.loads(out)
        if "error" in answer:
            objects = tuple(ReleaseObject(**one) for one in answer.get("of") or ())
            raise HelmError(str(answer["error"]), final=answer.get("kind") in _FINAL, objects=objects)
        return dict(answer)

    async def _keep_word(self, process: asyncio.subprocess.Process, message: bytes) -> None:
        """Gives the order, and then a word now and then, for as long as we may act."""
        stdin = process.stdin
        if stdin is None:
            return
        try:
            while self._held():
                stdin.write(message)
                await stdin.drain()
                message = b"\n"
                await asyncio.sleep(_WORD_EVERY)
            process.kill()
        except (ConnectionError, ProcessLookupError):
            # It has ended, which whoever reads its answer learns by itself.
            return
        finally:
            stdin.close()


async def _whole_output(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    if process.stdout is None or process.stderr is None:
        return b"", b""
    out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
    await process.wait()
    return out, err


def _release(answer: dict[str, Any]) -> Release:
    return Release(
        name=str(answer.get("name", "")),
        namespace=str(answer.get("namespace", "")),
        revision=int(answer.get("revision", answer.get("version", 0)) or 0),
        status=str(answer.get("status", "")),
        chart=str(answer.get("chart", "")),
    )
