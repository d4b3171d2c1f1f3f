"""What a worker process is told, by environment variables or by its caller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from domain.contracts.jobs import TimeLimits
from jobs import EngineSettings


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of one worker process.

    `key_file` None takes the key from TRILITHON_KEY. `sites` limits it to these site ids (empty: all): so a worker can
    stand where only it reaches a site. `control` false runs no workflows and no dispatcher. Slots are activities at
    once per site: effects are few, so that Proxmox VE is not flooded, clones fewer still, waits many.
    """

    store_url: str
    key_file: Path | None = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    charts: Path = Path("charts")
    sites: tuple[str, ...] = ()
    control: bool = True
    effect_slots: int = 8
    clone_slots: int = 2
    wait_slots: int = 400
    control_slots: int = 40
    grace_seconds: float = 20.0
    """How long activities may go on after SIGTERM before they are cut; their next attempt resumes elsewhere."""
    sticky_seconds: float = 2.0
    """How long a workflow's task waits for the worker that knows it: so long a death holds up its jobs (the SDK's
    default is 10 s). A worker that is merely slow costs a replay."""


def from_environment(environment: Mapping[str, str]) -> WorkerSettings:
    """Read TRILITHON_* variables.

    TRILITHON_STORE (required), _KEY_FILE, _TEMPORAL (host:port), _NAMESPACE, _TEMPORAL_UI, _CHARTS, _SITES (comma
    separated ids), _CONTROL (0 or 1), _LIMITS (JSON of domain.contracts.jobs.TimeLimits), _GRACE and
    _STICKY (seconds).
    Raises ValueError naming the variable that is missing or wrong.
    """

    def get(name: str, default: str = "") -> str:
        return environment.get(f"TRILITHON_{name}", default).strip()

    if not get("STORE"):
        raise ValueError(
            "TRILITHON_STORE is not set: the store's address, for example sqlite+aiosqlite:///trilithon.db"
        )
    try:
        limits = TimeLimits.model_validate_json(get("LIMITS", "{}"))
    except ValueError as error:
        raise ValueError(f"TRILITHON_LIMITS is not readable: {error}") from error

    def seconds(name: str, default: float) -> float:
        try:
            return float(get(name, str(default)))
        except ValueError as error:
            raise ValueError(f"TRILITHON_{name} is not a number of seconds") from error

    return WorkerSettings(
        store_url=get("STORE"),
        key_file=Path(get("KEY_FILE")) if get("KEY_FILE") else None,
        engine=EngineSettings(
            address=get("TEMPORAL", "127.0.0.1:7233"),
            namespace=get("NAMESPACE", "default"),
            ui=get("TEMPORAL_UI"),
            limits=limits,
        ),
        charts=Path(get("CHARTS", "charts")),
        sites=tuple(part.strip() for part in get("SITES").split(",") if part.strip()),
        control=get("CONTROL", "1") != "0",
        grace_seconds=seconds("GRACE", WorkerSettings.grace_seconds),
        sticky_seconds=seconds("STICKY", WorkerSettings.sticky_seconds),
    )
