"""Clusters from the command line: apply, create, get, describe, wait, kubeconfig, delete."""

import os
import re
import sys
import time
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import things
from cli.connection import Connection
from cli.failures import ERROR, TIMED_OUT, USAGE, Failure, Refusal
from cli.output import FORMATS, moment, say, show, write
from domain.sizes import bytes_text

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the cluster.")]
Output = Annotated[str, typer.Option("--output", "-o", help=FORMATS)]
FileName = Annotated[str, typer.Option("--filename", "-f", help="The manifest; `-` reads standard input.")]
LOOK_EVERY = 1.0
"""Seconds between two looks of `wait`."""


def apply(
    filename: FileName,
    dry_run: Annotated[str, typer.Option("--dry-run", help="none, or server: check and plan, write nothing.")] = "none",
) -> None:
    """Make the cluster what the manifest says: create it, or find that nothing differs."""
    for text, manifest in _manifests(filename):
        namespace, name = _named(manifest)
        query = {"dryRun": "true"} if dry_run == "server" else {}
        answer = Connection().answer(
            "PUT",
            f"/clusters/{namespace}/{name}",
            params=query,
            content=text,
            headers={"Content-Type": "application/yaml"},
        )
        if dry_run == "server":
            _show_preview(answer.json())
            continue
        _accepted(name, answer.status_code, answer.json())


def create(filename: FileName) -> None:
    """Create a cluster from its manifest; refused when it exists."""
    for text, manifest in _manifests(filename):
        _, name = _named(manifest)
        headers = {"Content-Type": "application/yaml", "Idempotency-Key": str(uuid.uuid4())}
        answer = Connection().answer("POST", "/clusters", content=text, headers=headers)
        _accepted(name, answer.status_code, answer.json())


def get(
    what: Annotated[list[str], typer.Argument(help="Kind and name: clusters, cluster/NAME, machines, jobs, sites …")],
    output: Output = "table",
    namespace: Namespace = "clusters",
    cluster: Annotated[str | None, typer.Option("--cluster", help="machines: of which cluster.")] = None,
    site: Annotated[str | None, typer.Option("--site", help="templates: of which site.")] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave the column titles out.")] = False,
) -> None:
    """List things, or show one."""
    kind, name = things.kind_and_name(what)
    api = Connection()
    single = name is not None and kind != "machine"
    if kind == "cluster":
        rows = [api.get(f"/clusters/{namespace}/{name}")] if name else _all(api, "/clusters")
        columns, wide = things.CLUSTER, things.CLUSTER_WIDE
    elif kind == "machine":
        of = cluster or _need(name, "Say of which cluster: get machines --cluster NAME.")
        rows = api.get(f"/clusters/{namespace}/{of}/machines")["items"]
        columns, wide = things.MACHINE, things.MACHINE_WIDE
    elif kind == "job":
        rows = [api.get(f"/jobs/{name}")] if name else _all(api, "/jobs")
        columns, wide = things.JOB, things.JOB_WIDE
    elif kind == "site":
        rows = [api.get(f"/sites/{name}")] if name else _items(api.get("/sites"))
        columns, wide = things.SITE, []
    else:
        rows = _items(api.get(f"/sites/{_site(api, site)}/templates"))
        columns, wide, single = things.TEMPLATE, [], False
    if not rows and output in ("table", "wide"):
        say(f"There are no {kind}s that you may see.")
        return
    show(rows, output, kind=kind, columns=columns, wide=wide, single=single, headers=not no_headers)


def describe(
    what: Annotated[list[str], typer.Argument(help="cluster/NAME or job/ID")], namespace: Namespace = "clusters"
) -> None:
    """Show one thing with its conditions, machines and what it waits for."""
    kind, name = things.kind_and_name(what)
    name = _need(name, f"Say which: describe {kind}/NAME.")
    api = Connection()
    if kind == "job":
        _describe_job(api.get(f"/jobs/{name}"))
        return
    if kind != "cluster":
        raise Failure(f"describe knows clusters and jobs, not {kind}s.", f"Use get {kind}s -o yaml.", code=USAGE)
    row = api.get(f"/clusters/{namespace}/{name}")
    for label, value in (
        ("Name", row["name"]),
        ("Namespace", row["namespace"]),
        ("Site", row["site"]),
        ("Status", f"{row['status']} {row['message']}".strip()),
        ("Distribution", f"{row['distribution']} {row['version']}"),
        ("API", f"https://{row['endpoint']}:6443"),
        ("Pool", row["pool"]),
        ("Pod range", ", ".join(row["spec"].get("pod_cidrs", []))),
        ("Service range", ", ".join(row["spec"].get("service_cidrs", []))),
        ("Created", f"{moment(row['created_at'])} by {row['created_by']}"),
        ("Job", f"{row['job']['kind']} {row['job']['phase']} (job/{row['job']['id']})" if row["job"] else "none"),
    ):
        write(f"{label + ':':<15}{value}")
    write("Conditions:")
    for condition in row["conditions"]:
        status = {True: "True", False: "False", None: "Unknown"}[condition["status"]]
        mark = "!" if condition["worth_a_look"] else " "
        write(f"  {mark} {condition['type']:<24}{status:<8}{condition['reason']:<18}{condition['message']}")
    if row["etcd"]:
        _describe_etcd(row["etcd"])
    write("Machines:")
    machines = api.get(f"/clusters/{namespace}/{name}/machines")["items"]
    show(machines, "table", kind="machine", columns=[*things.MACHINE, ("message", lambda r: r["message"])])


def _describe_etcd(etcd: dict[str, Any]) -> None:
    used = f", {bytes_text(etcd['size'])} of {bytes_text(etcd['quota'])} used" if etcd["quota"] else ""
    lost = "without a majority" if etcd["tolerance"] < 0 else f"may lose {etcd['tolerance']} more"
    write(f"Etcd: {etcd['healthy']} of {etcd['voters']} members healthy, {lost}{used}")
    for member in etcd["members"]:
        state = {True: "healthy", False: "ill", None: "unknown"}[member["healthy"]]
        roles = [word for word in ("leader", "learner") if member[word]]
        owned = "" if member["machine"] else "belongs to no machine"
        write(f"    {member['name']:<24}{state:<10}{', '.join(roles):<10}{member['message'] or owned}".rstrip())


def wait(
    what: Annotated[str, typer.Argument(help="cluster/NAME")],
    for_: Annotated[str, typer.Option("--for", help="condition=TYPE, condition=TYPE=False, or delete.")],
    timeout: Annotated[str, typer.Option(help="How long, for example 40m or 90s.")] = "40m",
    namespace: Namespace = "clusters",
) -> None:
    """Wait until a condition holds or the cluster is gone. Ends early when its job needs a decision."""
    _, name = things.kind_and_name([what])
    name = _need(name, "Say which: wait cluster/NAME.")
    api, limit = Connection(), _seconds(timeout)
    deadline = time.monotonic() + limit
    shown = ""
    while True:
        try:
            row = api.get(f"/clusters/{namespace}/{name}")
        except Refusal as refusal:
            if refusal.status == 404 and for_ == "delete":
                write(f"cluster/{name} deleted")
                return
            raise
        if for_ != "delete" and _holds(row, for_):
            write(f"cluster/{name} condition met")
            return
        job = row["job"]
        # A create that asks a person asks for nothing any more once the deletion is recorded: it ends by itself.
        outdone = for_ == "delete" and row.get("deletion_requested_at") and job and job["kind"] != "DeleteCluster"
        if job and job["phase"] == "awaiting-decision" and not outdone:
            raise Failure(
                f"The job of {name} needs a decision: {job['error']}",
                f"trilithon retry job/{job['id']}   or   trilithon abort job/{job['id']}",
            )
        now = _progress(row, for_)
        if now and now != shown:
            shown = now
            say(f"{time.strftime('%H:%M:%S')} {shown}")
        if time.monotonic() > deadline:
            raise Failure(f"cluster/{name}: {for_} did not come within {timeout}.", code=TIMED_OUT)
        time.sleep(LOOK_EVERY)


def _progress(row: dict[str, Any], for_: str) -> str:
    """What a person who waits sees: what the job waits for, else how many machines are Ready."""
    waiting = (row["job"] or {}).get("waiting")
    if waiting:
        return f"waiting for {waiting['waiting_for']}"
    if for_ == "delete":
        return str(row["status"]).lower()
    counts = ((word, row[key]) for word, key in (("servers", "control_plane"), ("workers", "workers")))
    return ", ".join(f"{c['ready']} of {c['wanted']} {word} ready" for word, c in counts if c["wanted"])


def kubeconfig(
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.")],
    namespace: Namespace = "clusters",
    filename: Annotated[str | None, typer.Option("--filename", "-f", help="Write it there (mode 0600).")] = None,
) -> None:
    """Print the cluster's admin kubeconfig, or write it to a file. Every download is recorded."""
    name = cluster.removeprefix("cluster/")
    text = Connection().answer("POST", f"/clusters/{namespace}/{name}/kubeconfig").text
    if filename is None:
        write(text.rstrip())
        return
    descriptor = os.open(filename, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    say(f"Written to {filename}: kubectl --kubeconfig {filename} get nodes")


def delete(
    what: Annotated[list[str], typer.Argument(help="cluster/NAME")],
    namespace: Namespace = "clusters",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the name.")] = False,
    wait_for_it: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is gone.")] = False,
) -> None:
    """Delete a cluster with its VMs. This cannot be undone."""
    kind, name = things.kind_and_name(what)
    name = _need(name, "Say which: delete cluster/NAME.")
    if kind != "cluster":
        raise Failure(
            f"delete knows clusters; a {kind} has a command of its own.", f"trilithon {kind} --help", code=USAGE
        )
    api = Connection()
    if not yes:
        machines = api.get(f"/clusters/{namespace}/{name}/machines")["items"]
        if not sys.stdin.isatty():
            raise Failure("There is no terminal to ask for the name on.", "Use --yes.", code=USAGE)
        count = "1 VM" if len(machines) == 1 else f"{len(machines)} VMs"
        sys.stderr.write(f"{count} of {name} will be deleted. Type the cluster's name to confirm: ")
        sys.stderr.flush()
        if sys.stdin.readline().strip() != name:
            raise Failure("That is not its name; nothing was deleted.")
    api.send("DELETE", f"/clusters/{namespace}/{name}", json={"confirm": name})
    write(f"cluster/{name} deletion accepted")
    if wait_for_it:
        wait(f"cluster/{name}", for_="delete", namespace=namespace)


def _accepted(name: str, status: int, answer: dict[str, Any]) -> None:
    word = "unchanged" if not answer["changed"] else "created" if status in (201, 202) else "configured"
    write(f"cluster/{name} {word}")
    if answer["changed"] and not answer["started"]:
        say("Temporal does not answer; the change is kept and its job starts when Temporal is back.")
    unbuilt = [c for c in answer["cluster"]["conditions"] if c["reason"] == "NotBuiltYet"]
    for condition in unbuilt:
        say(f"  {condition['type']}: {condition['message']}")


def _show_preview(preview: dict[str, Any]) -> None:
    if preview["violations"]:
        raise Refusal({"detail": "The manifest is refused; nothing was written.", "violations": preview["violations"]})
    write(f"cluster/{preview['name']} would {'be unchanged' if preview['exists'] else 'be created'} (server dry run)")
    for step in preview["steps"]:
        write(f"  {step['wave']:>3}  {step['summary']}")


def _manifests(filename: str) -> list[tuple[str, dict[str, Any]]]:
    import yaml

    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        documents = [d for d in yaml.safe_load_all(text) if d is not None]
    except OSError as error:
        raise Failure(f"{filename} cannot be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise Failure(f"{filename} is not YAML: {error}") from error
    if not documents:
        raise Failure(f"{filename} holds no manifest.")
    return [(yaml.safe_dump(document, sort_keys=False), document) for document in documents]


def _named(manifest: Any) -> tuple[str, str]:
    metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Failure("The manifest has no metadata.name.", "A Cluster manifest names its cluster there.")
    return str(metadata.get("namespace") or "clusters"), str(metadata["name"])


def _holds(row: dict[str, Any], wanted: str) -> bool:
    found = re.fullmatch(r"condition=([A-Za-z]+)(?:=(True|False|true|false))?", wanted)
    if found is None:
        raise Failure(
            f"--for={wanted} is not understood.", "Use --for=condition=Available or --for=delete.", code=USAGE
        )
    status = (found[2] or "True").lower() == "true"
    return any(c["type"] == found[1] and c["status"] is status for c in row["conditions"])


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", text)
    if not text or found is None:
        raise Failure(f"{text!r} is not a time.", "Write it like 40m, 90s or 1h30m.", code=USAGE)
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _describe_job(job: dict[str, Any]) -> None:
    about = f"{job['cluster']['namespace']}/{job['cluster']['name']}" if job["cluster"] else job["site"]
    write(f"{job['kind']} of {about}: {job['phase']}")
    if job["waiting"]:
        write(f"waiting for {job['waiting']['waiting_for']} since {job['waiting']['since']}")
    if job["error"]:
        write(f"error: {job['error']}")
    for step in job["steps"]:
        tail = f" (attempt {step['attempt']})" if step["attempt"] > 1 else ""
        write(f"  {step['state']:<10}{step['summary']}{tail}" + (f": {step['error']}" if step["error"] else ""))


def _all(api: Connection, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        page = api.get(path, offset=len(rows), limit=200)
        rows += page["items"]
        if len(rows) >= page["total"] or not page["items"]:
            return rows


def _items(answer: Any) -> list[dict[str, Any]]:
    return list(answer["items"]) if isinstance(answer, dict) else list(answer)


def _site(api: Connection, site: str | None) -> str:
    if site is not None:
        return site
    names = [row["name"] for row in _items(api.get("/sites"))]
    if len(names) != 1:
        raise Failure("Say of which site with --site.", f"Sites: {', '.join(names) or 'none'}.", code=ERROR)
    return str(names[0])


def _need(name: str | None, text: str) -> str:
    if name is None:
        raise Failure(text, code=USAGE)
    return name
