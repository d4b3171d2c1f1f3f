"""Sites and their templates from the command line."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.connection import Connection
from cli.failures import USAGE, Failure
from cli.output import say, write

site = typer.Typer(help="Proxmox VE datacenters: add, check, test, remove.", no_args_is_help=True)
template = typer.Typer(help="VM templates registered with a site.", no_args_is_help=True)
SiteName = Annotated[str, typer.Argument(help="Name of the site.")]


@site.command()
def add(
    name: SiteName,
    endpoint: Annotated[list[str], typer.Option(help="Base address such as https://pve1:8006; repeat for fail-over.")],
    token_id: Annotated[str, typer.Option(help="The platform's API token, user@realm!name.")],
    bridge: Annotated[list[str], typer.Option(help="Bridge that clusters may use; repeat.")],
    storage: Annotated[list[str], typer.Option(help="Storage that clusters may use; repeat.")],
    iso_storage: Annotated[str, typer.Option(help="Storage for boot ISOs.")],
    fingerprint: Annotated[str | None, typer.Option(help="SHA-256 of the certificate, to pin it.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="The authority's certificate (PEM), instead.")] = None,
    workload_pool: Annotated[str, typer.Option()] = "trilithon",
    template_pool: Annotated[str, typer.Option()] = "trilithon-templates",
    artifact_url: Annotated[str | None, typer.Option(help="Where nodes fetch programs that templates lack.")] = None,
    vmid_first: Annotated[int, typer.Option()] = 20000,
    vmid_last: Annotated[int, typer.Option()] = 29999,
) -> None:
    """Add a site. The token's secret is read from standard input, never from an argument."""
    body = {
        "name": name,
        "endpoints": endpoint,
        "token_id": token_id,
        "token_secret": _secret(),
        "bridges": bridge,
        "storages": storage,
        "iso_storage": iso_storage,
        "fingerprint": fingerprint,
        "ca": ca_file.read_text() if ca_file else None,
        "workload_pool": workload_pool,
        "template_pool": template_pool,
        "artifact_url": artifact_url,
        "vmid_first": vmid_first,
        "vmid_last": vmid_last,
    }
    answer = Connection().send("POST", "/sites", json=body)
    write(f"site/{name} added")
    _report(answer["report"])


@site.command()
def edit(
    name: SiteName,
    endpoint: Annotated[list[str] | None, typer.Option()] = None,
    bridge: Annotated[list[str] | None, typer.Option()] = None,
    storage: Annotated[list[str] | None, typer.Option()] = None,
    iso_storage: Annotated[str | None, typer.Option()] = None,
    fingerprint: Annotated[str | None, typer.Option()] = None,
    artifact_url: Annotated[str | None, typer.Option()] = None,
) -> None:
    """Change a site; what is not named stays."""
    api = Connection()
    wanted = {
        "endpoints": endpoint,
        "bridges": bridge,
        "storages": storage,
        "iso_storage": iso_storage,
        "fingerprint": fingerprint,
        "artifact_url": artifact_url,
    }
    changes: dict[str, Any] = {key: value for key, value in wanted.items() if value}
    if not changes:
        raise Failure("Nothing to change was named.", "trilithon site edit --help", code=USAGE)
    changes["version"] = api.get(f"/sites/{name}")["version"]
    api.send("PATCH", f"/sites/{name}", json=changes)
    write(f"site/{name} changed")


@site.command("rotate-token")
def rotate_token(
    name: SiteName, token_id: Annotated[str | None, typer.Option(help="New token id, when it changes too.")] = None
) -> None:
    """Give the platform's token a new secret (from standard input); it is tried before it is kept."""
    Connection().send("POST", f"/sites/{name}/rotate-token", json={"token_id": token_id, "token_secret": _secret()})
    write(f"site/{name} token rotated")


@site.command()
def remove(name: SiteName) -> None:
    """Remove a site; refused while clusters or templates are on it."""
    Connection().answer("DELETE", f"/sites/{name}")
    write(f"site/{name} removed")


@site.command()
def check(name: SiteName) -> None:
    """Look at the site, change nothing, and name every missing privilege with the line that grants it."""
    report = Connection().send("POST", f"/sites/{name}/check")
    _report(report)
    if not report["ok"]:
        raise Failure(f"Clusters cannot be made on {name} yet.")


@site.command()
def selftest(name: SiteName) -> None:
    """Clone, boot and delete one small VM on the site; follow with `trilithon logs job/ID -f`."""
    job = Connection().send("POST", f"/sites/{name}/selftest")
    write(f"job/{job['id']} started")


@template.command("add")
def template_add(
    site_name: SiteName,
    distribution: Annotated[str, typer.Option(help="rke2, k3s or kubeadm.")],
    version: Annotated[str, typer.Option(help="Version in the distribution's own form.")],
    node: Annotated[list[str], typer.Option(help="NODE=VMID; one on shared storage, one for each node on local.")],
    shared: Annotated[bool, typer.Option("--shared", help="The template lies on shared storage.")] = False,
    programs: Annotated[bool, typer.Option(help="The distribution's programs are in the template.")] = True,
) -> None:
    """Register a VM template that exists on the site."""
    nodes = {}
    for part in node:
        name, _, vmid = part.partition("=")
        if not vmid.isdigit():
            raise Failure(f"--node {part} is not NODE=VMID.", code=USAGE)
        nodes[name] = int(vmid)
    body = {
        "distribution": distribution,
        "version": version,
        "nodes": nodes,
        "shared": shared,
        "has_programs": programs,
    }
    Connection().send("POST", f"/sites/{site_name}/templates", json=body)
    write(f"template/{distribution}-{version} registered")


@template.command("remove")
def template_remove(site_name: SiteName, distribution: str, version: str) -> None:
    """Forget a template; the VM stays."""
    Connection().answer("DELETE", f"/sites/{site_name}/templates/{distribution}/{version}")
    write(f"template/{distribution}-{version} removed")


def _secret() -> str:
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Secret of the token: ")
    return sys.stdin.readline().strip()


def _report(report: dict[str, Any]) -> None:
    for finding in report["findings"]:
        word = {"ok": "ok", "warning": "!!", "error": "XX"}[finding["severity"]]
        write(f"{word}  {finding['subject']}: {finding['message']} {finding.get('remedy', '')}".rstrip())
        for command in finding.get("commands", []):
            write(f"      {command['line']}")
    for missing in report["missing"]:
        write(f"XX  {missing['privilege']} on {missing['path']} is missing: {missing['needed_for']}".rstrip(": "))
        write(f"      {missing['command']['line']}")
    if not report["ok"]:
        say("Run the lines above on a Proxmox VE node as root, then check again.")
