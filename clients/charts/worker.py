"""The subprocess in which Helm runs: one order by standard input, one answer by standard output.

The order is the first line. What follows are only signs of life: without one for `grace` seconds the process ends.

Run as `python -m clients.charts.worker`. The library takes the base name of the process's first argument as the field
manager of server-side apply, so whoever starts us gives it one fixed name (`clients.charts.helm.MANAGER`; Python's
own `sys.argv` is too late): two names would conflict with each other, and an upgrade would be refused.
"""

import hashlib
import json
import os
import select
import sys
import threading
import time
from typing import Any

import yaml

LABEL = "trilithon-values"
"""Release label with a digest of chart and values: how the next call sees that nothing differs."""


def main() -> None:
    """Reads the order, does it, prints `{"release": ...}` or `{"error": ...}`."""
    _die_with_parent()
    order = json.loads(sys.stdin.buffer.readline())
    _die_in_silence(float(order["grace"]))
    import helm_python as helm

    descriptor = os.memfd_create("kubeconfig", os.MFD_CLOEXEC)
    os.write(descriptor, order["kubeconfig"].encode())
    path = f"/proc/self/fd/{descriptor}"
    try:
        if order["do"] == "render":
            answer: dict[str, Any] = {"objects": _rendered(helm, order)}
        else:
            with helm.Config(namespace=order["namespace"], kubeconfig_path=path) as config:
                answer = _released(helm, config, order)
    except helm.HelmError as error:
        answer = _refusal(error)
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


def _die_with_parent() -> None:
    """Ends this process when whoever started it has died: two Helms at one release would undo each other."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _die_in_silence(grace: float) -> None:
    """Ends this process when whoever started it was stopped, or has no right to act any more."""

    def listen() -> None:
        while select.select([0], [], [], grace)[0] and os.read(0, 4096):
            pass
        os.write(2, b"its worker was silent\n")
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def _released(helm: Any, config: Any, order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"release": _do(helm, config, order)}
    except helm.HelmError as error:
        # What the failed release consists of, so that somebody can look which of its objects is the trouble.
        try:
            objects = _objects(config.status(order["name"]).get("manifest") or "")
        except helm.HelmError:
            objects = []
        return {**_refusal(error), "of": objects}


def _refusal(error: Exception) -> dict[str, Any]:
    return {"error": " ".join(str(error).split()), "kind": type(error).__name__}


def _rendered(helm: Any, order: dict[str, Any]) -> list[dict[str, Any]]:
    chart = helm.Chart.load(order["chart"])
    texts = chart.render(order["values"], name=order["name"], namespace=order["namespace"], is_install=True)
    found = [document for text in texts.values() for document in yaml.safe_load_all(text)]
    found += [document for crd in chart.crds for document in yaml.safe_load_all(crd.get("data") or "")]
    return [document for document in found if isinstance(document, dict)]


def _objects(manifest: str) -> list[dict[str, str]]:
    found = [document for document in yaml.safe_load_all(manifest) if isinstance(document, dict)]
    return [
        {
            "kind": str(document.get("kind", "")),
            "name": str((document.get("metadata") or {}).get("name", "")),
            "namespace": str((document.get("metadata") or {}).get("namespace", "")),
        }
        for document in found
    ]


def _do(helm: Any, config: Any, order: dict[str, Any]) -> dict[str, Any] | None:
    name, namespace = order["name"], order["namespace"]
    newest = _newest(helm, config, name)
    if order["do"] == "find":
        return newest
    digest = _digest(order)
    limit = max(5, int(order["limit"]) - 5)
    if newest is not None and _stuck(config, name, str(newest.get("status", ""))):
        newest = _mend(helm, config, name)
    if newest is not None and newest.get("status") == "deployed" and (newest.get("labels") or {}).get(LABEL) == digest:
        return newest
    arguments = {"labels": {LABEL: digest}, "timeout": limit, "namespace": namespace}
    if newest is None or newest.get("status") == "uninstalled":
        done = config.install(order["chart"], name, order["values"], create_namespace=True, **arguments)
    else:
        done = config.upgrade(order["chart"], name, order["values"], **arguments)
    return _summary(done)


def _stuck(config: Any, name: str, status: str) -> bool:
    """True where neither install nor upgrade would work: half done, or failed with nothing to go on from."""
    if status.startswith("pending") or status == "uninstalling":
        return True
    return status == "failed" and not _deployed(config, name)


def _deployed(config: Any, name: str) -> list[dict[str, Any]]:
    return [r for r in config.history(name) if r.get("status") in ("deployed", "superseded")]


def _mend(helm: Any, config: Any, name: str) -> dict[str, Any] | None:
    """A release left pending by a process that died: back to what was deployed, or away where nothing was."""
    deployed = _deployed(config, name)
    if deployed:
        config.rollback(name, version=int(deployed[-1].get("revision", deployed[-1].get("version", 0))))
    else:
        config.uninstall(name, ignore_not_found=True)
    return _newest(helm, config, name)


def _newest(helm: Any, config: Any, name: str) -> dict[str, Any] | None:
    try:
        history = config.history(name)
    except helm.HelmNotFoundError:
        return None
    except helm.HelmReleaseError as error:
        if "not found" in str(error):
            return None
        raise
    return _summary(history[-1]) if history else None


def _summary(release: dict[str, Any]) -> dict[str, Any]:
    return {key: release.get(key) for key in ("name", "namespace", "revision", "version", "status", "chart", "labels")}


def _digest(order: dict[str, Any]) -> str:
    text = json.dumps([order.get("version", ""), order["values"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


if __name__ == "__main__":
    main()
