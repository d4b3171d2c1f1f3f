"""How a machine gets its distribution's programs and starts them, without us.

A unit of our own (`trilithon-install.service`) runs one small POSIX script until it has succeeded once; so a machine
that was powered on needs nothing from us, and an artifact address that is away only costs time. The script

1. does nothing about programs that the template already has at the wanted version, else fetches them from the
   artifact address and verifies their checksum;
2. enables and starts the distribution's unit, which itself retries until the cluster answers;
3. turns cloud-init off, so that a boot without the ISO keeps this machine's network and files, and leaves a marker.

`TRILITHON_ROOT` puts another root in front of every path: that is how the tests run it.
"""

from dataclasses import dataclass
from urllib.parse import quote

from bootstrap.boot_input import BootInput, NodeFile

ARTIFACTS_ENV = "/etc/trilithon/artifacts.env"
DONE_MARKER = "/var/lib/trilithon/boot.done"
CLOUD_INIT_OFF = "/etc/cloud/cloud-init.disabled"
INSTALL_UNIT = "trilithon-install.service"
MIRROR_SUMS = "SHA256SUMS"
"""Name of the checksum file at a site's own artifact address."""


@dataclass(frozen=True)
class Programs:
    """What a distribution's script needs to know.

    Attributes:
        distribution: its name, as in paths.
        unit: the service that this machine runs.
        release_url: upstream's folder of this version's files.
        release_sums: the checksum file's name there; `@arch@` stands for amd64 or arm64.
        file: the file to fetch; `@arch@` likewise, `@-arch@` for a suffix that amd64 does not have.
        place: shell commands that put the verified file `$fetched` into place; the program itself comes last.
    """

    distribution: str
    unit: str
    release_url: str
    release_sums: str
    file: str
    place: str


def install_files(boot: BootInput, programs: Programs) -> tuple[NodeFile, ...]:
    """The script, what it reads, and the unit that runs it."""
    script = script_path(programs.distribution)
    return (
        NodeFile(ARTIFACTS_ENV, _environment(boot, programs), 0o644),
        NodeFile(script, _script(programs), 0o755),
        boot_unit(f"get {programs.distribution} and start it", script),
    )


def script_path(distribution: str) -> str:
    """Where a distribution's install script stands."""
    return f"/usr/local/lib/trilithon/install-{distribution}.sh"


INSTALL_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("systemctl", "daemon-reload"),
    ("systemctl", "enable", INSTALL_UNIT),
    ("systemctl", "start", "--no-block", INSTALL_UNIT),
)
"""What cloud-init runs at the end of the first boot."""


def _environment(boot: BootInput, programs: Programs) -> str:
    if boot.artifact_url is None:
        url, sums = programs.release_url, programs.release_sums
    else:
        # `+` means a space to some servers when it stands in a path unencoded.
        url = f"{boot.artifact_url.rstrip('/')}/{programs.distribution}/{quote(boot.machine.version, safe='')}"
        sums = MIRROR_SUMS
    values = {
        "DISTRIBUTION": programs.distribution,
        "VERSION": boot.machine.version,
        "URL": url,
        "SHA256_FILE": sums,
        "UNIT": programs.unit,
        "IN_TEMPLATE": "yes" if boot.has_programs else "no",
    }
    return "".join(f"{name}={_shell_text(value)}\n" for name, value in values.items())


def _shell_text(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def boot_unit(description: str, script: str) -> NodeFile:
    """The unit that runs a boot script until it has left the marker.

    Args:
        description: completes `Trilithon: ...` for people.
        script: path of the script; it ends with an error when it wants another try.
    """
    text = f"""\
[Unit]
Description=Trilithon: {description}
Wants=network-online.target
After=network-online.target
ConditionPathExists=!{DONE_MARKER}
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={script}
Restart=on-failure
RestartSec=10s

[Install]
WantedBy=multi-user.target
"""
    return NodeFile(f"/etc/systemd/system/{INSTALL_UNIT}", text, 0o644)


def _script(programs: Programs) -> str:
    return (
        _SCRIPT.replace("@distribution@", programs.distribution)
        .replace("@file@", programs.file.replace("@arch@", "$arch").replace("@-arch@", "$suffix"))
        .replace("@place@", programs.place.rstrip("\n"))
    )


_SCRIPT = r"""#!/bin/sh
# Gets the programs of @distribution@ at the wanted version, starts them, ends the boot. May run any number of times.
set -eu
umask 022
root=${TRILITHON_ROOT:-}
. "$root/etc/trilithon/artifacts.env"
program=$root/usr/local/bin/@distribution@
state=$root/var/lib/trilithon
work=$state/fetched

say() { echo "trilithon: $*"; }

fail() {
    echo "trilithon: $*" >&2
    exit 1
}

case $(uname -m) in
    x86_64) arch=amd64 suffix= ;;
    aarch64) arch=arm64 suffix=-arm64 ;;
    *) fail "no programs of @distribution@ for $(uname -m)" ;;
esac
file=@file@
sums=$(echo "$SHA256_FILE" | sed "s/@arch@/$arch/")

unit_file_exists() {
    for folder in etc/systemd/system usr/local/lib/systemd/system usr/lib/systemd/system lib/systemd/system; do
        if [ -e "$root/$folder/$UNIT" ]; then return 0; fi
    done
    return 1
}

programs_are_here() {
    [ -x "$program" ] && unit_file_exists || return 1
    # A template's program counts by what it says of itself: '<name> version <version> (<commit>)'.
    "$program" --version 2>/dev/null | grep -qF " version $VERSION "
}

# Template images differ in what can fetch; cloud-init itself brings Python.
get() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --connect-timeout 20 --output "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --timeout=60 --tries=1 --output-document="$2" "$1"
    else
        python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$1" "$2"
    fi
}

fetch_programs() {
    rm -rf "$work"
    mkdir -p "$work"
    get "$URL/$sums" "$work/$sums" || fail "cannot fetch $URL/$sums"
    wanted=$(awk -v name="$file" '$2 == name || $2 == "*" name { print $1 }' "$work/$sums")
    [ -n "$wanted" ] || fail "$sums at $URL does not name $file"
    get "$URL/$file" "$work/$file" || fail "cannot fetch $URL/$file"
    fetched=$work/$file
    found=$(sha256sum "$fetched" | cut -d ' ' -f 1)
    [ "$found" = "$wanted" ] || fail "checksum of $file is $found, $sums says $wanted"
@place@
    rm -rf "$work"
    programs_are_here || fail "$file was unpacked but $program is not $VERSION"
}

mkdir -p "$state" "$root/etc/cloud"
sysctl --quiet --load "$root/etc/sysctl.d/90-trilithon.conf" >/dev/null || say "some kernel settings were refused"
if programs_are_here; then
    say "$DISTRIBUTION $VERSION is in the template"
else
    if [ "$IN_TEMPLATE" = yes ]; then say "the template does not hold $DISTRIBUTION $VERSION"; fi
    say "fetching $DISTRIBUTION $VERSION from $URL"
    fetch_programs
fi
systemctl daemon-reload
systemctl enable "$UNIT"
# Not waited for: the unit retries by itself until its cluster answers, which may be long after this boot.
systemctl start --no-block "$UNIT"
: >"$root/etc/cloud/cloud-init.disabled"
echo "$DISTRIBUTION $VERSION" >"$state/boot.done.new"
mv "$state/boot.done.new" "$state/boot.done"
say "done"
"""
