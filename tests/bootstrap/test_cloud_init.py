"""The real cloud-init accepts the boot data: its schema, its network renderers, its data source."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from bootstrap import BootData, boot_data
from domain.clusters import Distribution
from tests.bootstrap.changes import Change, drop, put
from tests.bootstrap.examples import BUILT, ROLES, example_boot_data, example_input, example_machine

CASES = [(distribution, role) for distribution in BUILT for role in ROLES]
CLOUD_INIT = "/usr/bin/cloud-init"
PYTHON = "/usr/bin/python3"  # the system's: cloud-init is a Debian package


@pytest.fixture(autouse=True)
def _cloud_init_is_installed() -> None:
    assert Path(CLOUD_INIT).exists(), "the Debian package cloud-init is needed: apt-get install cloud-init"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def rendered(data: BootData, folder: Path, kind: str) -> subprocess.CompletedProcess[str]:
    """Lets cloud-init render the network-config for a Debian machine."""
    source = folder / "network-config"
    source.write_text(data.network_config)
    mac = "eth0,bc:24:11:00:00:01"
    arguments = ["-p", str(source), "-k", "yaml", "-d", str(folder), "-D", "debian", "-m", mac, "-O", kind]
    return run(CLOUD_INIT, "devel", "net-convert", *arguments)


@pytest.mark.parametrize(("distribution", "role"), CASES)
def test_the_schema_accepts_user_data(distribution: Distribution, role: str, tmp_path: Path) -> None:
    path = tmp_path / "user-data"
    path.write_text(example_boot_data(role, distribution).user_data)
    done = run(CLOUD_INIT, "schema", "--config-file", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Valid cloud-config" in done.stdout


def test_networkd_gets_a_fixed_address_and_no_dhcp(tmp_path: Path) -> None:
    done = rendered(example_boot_data(), tmp_path, "networkd")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "etc/systemd/network/10-cloud-init-eth0.network").read_text().splitlines()
    assert "Address=192.0.2.51/24" in lines
    assert "DHCP=no" in lines
    assert "Gateway=192.0.2.1" in lines
    assert "DNS=192.0.2.2 192.0.2.3" in lines
    assert "MACAddress=bc:24:11:00:00:01" in lines


def test_ifupdown_gets_a_fixed_address(tmp_path: Path) -> None:
    done = rendered(example_boot_data(), tmp_path, "eni")
    assert done.returncode == 0, done.stderr
    text = "".join(path.read_text() for path in (tmp_path / "etc/network").rglob("*") if path.is_file())
    assert "iface eth0 inet static" in text
    assert "address 192.0.2.51/24" in text
    assert "192.0.2.1" in text
    assert "dhcp" not in text


def test_netplan_gets_the_same_back(tmp_path: Path) -> None:
    done = rendered(example_boot_data(), tmp_path, "netplan")
    assert done.returncode == 0, done.stderr
    interface = yaml.safe_load((tmp_path / "etc/netplan/50-cloud-init.yaml").read_text())["network"]["ethernets"][
        "eth0"
    ]
    assert interface["addresses"] == ["192.0.2.51/24"]
    assert interface["match"]["macaddress"] == "bc:24:11:00:00:01"
    assert interface["set-name"] == "eth0"


@pytest.mark.parametrize(
    "change",
    [
        put("network-config", "ethernets.eth0.routes[0].to", "default"),
        drop("network-config", "ethernets.eth0.routes[0].to"),
        drop("network-config", "version"),
    ],
    ids=["to: default", "route without target", "no version"],
)
def test_the_renderer_refuses_what_the_table_says(change: Change, tmp_path: Path) -> None:
    """These rows of the table of mutations are cloud-init's own word."""
    assert rendered(change(example_boot_data()), tmp_path, "networkd").returncode != 0


def test_a_mac_of_digits_stays_a_text() -> None:
    given = example_input()
    machine = given.machine.model_copy(update={"mac": "10:20:30:40:50:10"})
    data = boot_data(type(given)(given.spec, machine, True, given.authorities, given.tokens))
    interface = yaml.safe_load(data.network_config)["ethernets"]["eth0"]
    assert interface["match"]["macaddress"] == "10:20:30:40:50:10"


_READ = """
import json, sys
from cloudinit import helpers
from cloudinit.sources.DataSourceNoCloud import DataSourceNoCloud
paths = helpers.Paths({"cloud_dir": sys.argv[1], "run_dir": sys.argv[1]})
source = DataSourceNoCloud({"datasource": {"NoCloud": {"fs_label": None}}}, None, paths)
assert source._get_data()
print(json.dumps([source.get_instance_id(), source.metadata["local-hostname"], source.network_config,
                  source.get_userdata_raw().decode()]))
"""


def test_the_data_source_reads_all_three_files(tmp_path: Path) -> None:
    data = example_boot_data()
    seed = tmp_path / "seed/nocloud"
    seed.mkdir(parents=True)
    (seed / "user-data").write_text(data.user_data)
    (seed / "meta-data").write_text(data.meta_data)
    (seed / "network-config").write_text(data.network_config)
    done = run(PYTHON, "-c", _READ, str(tmp_path))
    assert done.returncode == 0, done.stderr
    instance, hostname, network, user = json.loads(done.stdout.splitlines()[-1])
    machine = example_machine("first-server", "v1.36.5+k3s1")
    assert (instance, hostname) == (machine.bios_uuid, machine.name)
    assert network["ethernets"]["eth0"]["addresses"] == ["192.0.2.51/24"]
    assert user == data.user_data
