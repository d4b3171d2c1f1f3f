"""`python -m lab.programs build | list | pin`: the real laboratory's programs in their cache.

build [--version v1.36.3 ...]   builds what is missing; one line per program; paths as JSON on standard output
list [--version ...]            the paths, built or not
pin --version v1.36.4           writes the module files of another Kubernetes version (go mod tidy)
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from lab.programs.build import BuildFailed, build, built, compiler
from lab.programs.needs import EXIT_MISSING, Missing, missing_for_build, require
from lab.programs.recipes import DEFAULT_VERSION, HERE, kube, others


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def pin(version: str) -> None:
    """Writes a version's module file: Kubernetes' own replaces its parts by folders, which we do not have."""
    if not re.fullmatch(r"v1\.\d+\.\d+", version):
        raise SystemExit(f"{version} is no Kubernetes version like {DEFAULT_VERSION}")
    parts = f"v0.{version[3:]}"
    said = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{version}"],
        cwd=HERE / "kube",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    own = Path(json.loads(said)["GoMod"]).read_text()
    names = sorted(set(re.findall(r"(k8s\.io/\S+) => \./staging", own)))
    lines = [
        "module trilithon.lab/kube",
        "",
        "go 1.26.0",
        "",
        "godebug default=go1.26",
        "",
        "require (",
        "\tgithub.com/spf13/cobra v1.10.2",
        f"\tk8s.io/component-base {parts}",
        f"\tk8s.io/kubectl {parts}",
        f"\tk8s.io/kubernetes {version}",
        ")",
        "",
        "replace (",
        *(f"\t{name} => {name} {parts}" for name in names),
        ")",
        "",
    ]
    (HERE / "kube" / f"{version}.mod").write_text("\n".join(lines))
    subprocess.run(["go", "mod", "tidy", f"-modfile={version}.mod"], cwd=HERE / "kube", check=True)


def main() -> int:
    """Runs the command; 69 when the machine lacks something, 1 when a build fails."""
    parser = argparse.ArgumentParser(
        prog="lab.programs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("build", "list", "pin"))
    parser.add_argument("--version", action="append", help=f"Kubernetes version, may repeat ({DEFAULT_VERSION})")
    parser.add_argument("--only", action="append", help="only these programs")
    arguments = parser.parse_args()
    try:
        require(missing_for_build())
        wanted = arguments.version or [DEFAULT_VERSION]
        if arguments.what == "pin":
            for version in wanted:
                pin(version)
            return 0
        recipes = [r for r in [*others(), *(kube(v) for v in wanted)] if not arguments.only or r.name in arguments.only]
        go = compiler()
        paths = {r.name: str(build(r, _say, go) if arguments.what == "build" else built(r, go)) for r in recipes}
    except Missing as error:
        _say(str(error))
        return EXIT_MISSING
    except (BuildFailed, ValueError) as error:
        _say(str(error))
        return 1
    print(json.dumps(paths, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
