"""Another worker process at the same release: `python other_worker.py`, what it needs as JSON by standard input.

Prints `done`, or the error's text.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from temporalio.exceptions import ApplicationError

from activities.helm import ChartShelf, Releasing, Turns
from activities.kubernetes.reach import ClusterReach
from clients.charts import ChartFolder
from clients.kubernetes import Identity, KubernetesClient
from domain.clusters import Cluster
from domain.releases import Release
from store import SecretKey, open_store
from tests.activities.helm.test_releasing import Reach


async def main(order: dict[str, Any]) -> None:
    """One attempt at the release."""
    identity = Identity(order["ca"], order["certificate"], order["key"])
    client = KubernetesClient(order["url"], identity)
    store = open_store(order["store"], SecretKey.generate(), clock=lambda: datetime.now(UTC))
    shelf = ChartShelf(store, ChartFolder(Path(order["charts"])), Path(order["unpacked"]))
    releasing = Releasing(cast(ClusterReach, Reach(client, identity)), shelf, Turns(store, life=order["life"]))
    try:
        await releasing.ensure_release(
            Cluster.model_validate_json(order["cluster"]), [], Release.model_validate_json(order["release"])
        )
        sys.stdout.write("done\n")
    except ApplicationError as error:
        sys.stdout.write(f"{error.message}\n")
    await client.aclose()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.readline())))
