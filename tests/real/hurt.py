"""A platform on real nodes whose worker dies by plan (tests/faults/watched.py)."""

import json
import subprocess
import sys
from pathlib import Path

from domain.contracts.jobs import SITE_MONITOR
from tests.faults.watched import Watched
from tests.real.running import RealTrilithon

QUICK = {"heartbeat": 2.0, "effect": 20.0, "retry_first": 0.1, "retry_max": 1.0}
"""A death is noticed after two seconds."""
LONG = {"task": 600.0, "boot": 3000.0, "ready": 3000.0, "available": 3000.0, "persist": 3000.0}
"""A life with many deaths takes its time, and nobody is asked because of that."""


class RealWatched(Watched, RealTrilithon):
    """`trilithon up --lab real` with a plan of crash points and a view of its store."""

    patience = 3000.0

    def quick(self) -> None:
        """From now on a death is noticed at once and a person is asked late; `again` takes it back."""
        self.again(**QUICK, **LONG)

    def apply_small(self, name: str) -> None:
        """Asks for a kubeadm cluster of one server and one worker with Calico; does not wait."""
        text = self.manifest("dev-kubeadm.yaml").read_text()
        base = self.lab["network"]["base"]
        text = text.replace("name: dev\n", f"name: {name}\n").replace("replicas: 2\n", "replicas: 1\n")
        # Not the addresses of the example, whose machines others may remember.
        text = text.replace(f"{base}.50", f"{base}.80").replace(f"{base}.51-{base}.59", f"{base}.81-{base}.89")
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        self.run("apply", "-f", str(path))

    def open_workflows(self) -> list[str]:
        """Workflows that run, without the sites' monitors; asked inside, where the Temporal server is."""
        program = Path(sys.executable).with_name("temporal")
        words = ["workflow", "list", "--query", "ExecutionStatus = 'Running'", "-o", "json"]
        done = subprocess.run(
            [*self.lab["enter"], str(program), *words, "--address", f"127.0.0.1:{self.temporal_port}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        rows = json.loads(done.stdout or "[]")
        return [str(row["execution"]["workflowId"]) for row in rows if row["type"]["name"] != SITE_MONITOR]
