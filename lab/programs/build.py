"""Builds programs once each into a cache that is keyed by what decides their content."""

import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.programs.needs import Missing, missing_for_build
from lab.programs.recipes import Recipe

FLAGS = ("-trimpath", "-buildvcs=false")
LINK = "-s -w"


class BuildFailed(Exception):
    """The Go compiler refused; str() holds its last lines."""


def cache_folder() -> Path:
    """Where built programs live: $TRILITHON_PROGRAMS, or ~/.cache/trilithon/programs."""
    given = os.environ.get("TRILITHON_PROGRAMS")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "trilithon" / "programs"


def compiler() -> str:
    """The compiler's own version line: another compiler makes other programs."""
    done = subprocess.run(["go", "env", "GOVERSION", "GOOS", "GOARCH"], capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split())


def key_of(recipe: Recipe, go: str) -> str:
    """Twelve hex digits over sources, pinned modules, flags and compiler."""
    digest = hashlib.sha256()
    parts = [
        recipe.name,
        recipe.package,
        recipe.tags,
        LINK,
        *FLAGS,
        go,
        *(f"{k}={v}" for k, v in sorted(recipe.variables.items())),
    ]
    for path in recipe.sources:
        parts += [path.name, hashlib.sha256(path.read_bytes()).hexdigest()]
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:12]


def built(recipe: Recipe, go: str) -> Path:
    """Where the program is, or will be."""
    return cache_folder() / f"{recipe.name}-{key_of(recipe, go)}"


def build(recipe: Recipe, say: Callable[[str], None], go: str | None = None) -> Path:
    """The program's file, built when it is not in the cache.

    Raises:
        BuildFailed: the compiler refused.
    """
    go = go or compiler()
    out = built(recipe, go)
    if out.exists():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    with _alone(out.parent / f".{recipe.name}.lock"):
        if out.exists():
            return out
        say(f"building {recipe.name} …")
        began = time.monotonic()
        draft = out.with_name(f".{out.name}.{os.getpid()}")
        variables = "".join(f" -X {name}={value}" for name, value in sorted(recipe.variables.items()))
        command = [
            "nice",
            "-n",
            "10",
            "go",
            "build",
            *FLAGS,
            "-mod=readonly",
            f"-modfile={recipe.modfile}",
            *(["-tags", recipe.tags] if recipe.tags else []),
            "-ldflags",
            LINK + variables,
            "-o",
            str(draft),
            recipe.package,
        ]
        environment = {**os.environ, "CGO_ENABLED": "0"}
        done = subprocess.run(
            command,
            cwd=Path(__file__).resolve().parent / recipe.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            draft.unlink(missing_ok=True)
            tail = "\n".join((done.stderr or done.stdout).splitlines()[-12:])
            raise BuildFailed(f"{recipe.name} cannot be built (go ended with {done.returncode}):\n{tail}")
        draft.replace(out)
        say(f"built {recipe.name}: {out.stat().st_size >> 20} MB in {time.monotonic() - began:.0f} s")
    return out


def obtain(recipe: Recipe, say: Callable[[str], None]) -> Path:
    """The program's file for whoever wants to run it, built where this machine has Go.

    Another build of the same program is waited for. Without Go the newest one of that name in the cache serves: its key
    cannot be known without the compiler.

    Raises:
        Missing: it is not in the cache and this machine cannot build it; str() says how to get it.
        BuildFailed: the compiler refused.
    """
    lacks = missing_for_build()
    if not lacks:
        return build(recipe, say)
    found = sorted(cache_folder().glob(f"{recipe.name}-*"), key=lambda path: path.stat().st_mtime)
    found = [path for path in found if len(path.name) == len(recipe.name) + 13]
    if not found:
        raise Missing(
            f"{recipe.name} is not in {cache_folder()} and cannot be built: it needs {'; '.join(lacks)}. "
            "With Go, `python -m lab.programs build` puts it there; a cache of another machine of this kind serves too."
        )
    return found[-1]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One builder of a program at a time, over processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
