"""One real machine without Kubernetes: power, seed, guest agent, hardware, networks."""

import http.client
import subprocess
import sys
import urllib.request

import pytest

from tests.lab.real.laboratory import ROOT, SPACE, Laboratory, Refused

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

PLAIN = """#cloud-config
manage_etc_hosts: true
ssh_genkeytypes: [ed25519]
write_files:
  - path: /etc/was-here
    content: once
"""
LAST = PLAIN + "runcmd:\n  - touch /etc/cloud/cloud-init.disabled\n"


def test_boot_agent_hardware_and_end(laboratory: Laboratory) -> None:
    body = laboratory.power_on(11, "plain", LAST, memory_mib=1024)
    with pytest.raises(Refused, match="guest agent does not run"):
        laboratory.call("GET", "/machines/11/agent/interfaces")
    laboratory.wait("boot", lambda: laboratory.booted(11))
    with pytest.raises(Refused, match="has power already"):
        laboratory.power_on(11, "plain", LAST)
    assert laboratory.run(11, "hostname") == "plain\n"
    assert laboratory.run(11, "cat", "/etc/was-here") == "once"
    assert laboratory.run(11, "cat", "/sys/class/dmi/id/product_uuid").strip() == body["uuid"]
    assert laboratory.run(11, "cat", "/sys/class/dmi/id/product_serial") == "11\n"
    assert laboratory.run(11, "cat", "/etc/machine-id").strip() == body["uuid"].replace("-", "")
    assert laboratory.run(11, "ls", "-A", "/lib/systemd/system/kubelet.service")
    limit = laboratory.run(11, "sh", "-c", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes")
    assert int(limit) == 1024 << 20
    found = {row["name"]: row for row in laboratory.call("GET", "/machines/11/agent/interfaces")["result"]}
    assert found["eth0"]["hardware-address"] == body["macs"][0]
    assert {"ip-address": f"{laboratory.net}.11", "prefix": 24, "ip-address-type": "ipv4"} in found["eth0"][
        "ip-addresses"
    ]
    laboratory.call("DELETE", "/machines/11")
    with pytest.raises(Refused, match="never powered on"):
        laboratory.call("POST", "/machines/11/agent/ping")


def test_exec_is_the_machine_s_own(laboratory: Laboratory) -> None:
    laboratory.power_on(12, "runs", LAST)
    laboratory.wait("boot", lambda: laboratory.booted(12))

    def said(*command: str) -> tuple[int, str, str]:
        answer = laboratory.call("POST", "/machines/12/agent/exec", {"command": list(command)})
        return answer["exitcode"], answer["out"], answer["err"]

    assert said("sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")
    assert said("no-such-program")[0] == 127
    assert said("ps", "-p", "1", "-o", "comm=") == (0, "systemd\n", "")
    assert said("systemctl", "is-active", "containerd")[1] == "active\n"
    # What would be a setting of the whole machine cannot be written from inside.
    assert said("sh", "-c", "echo 1 > /proc/sys/fs/inotify/max_user_instances")[0] != 0
    assert said("systemctl", "stop", "qemu-guest-agent")[0] == 0
    with pytest.raises(Refused, match="guest agent does not run"):
        laboratory.call("POST", "/machines/12/agent/ping")
    laboratory.call("DELETE", "/machines/12")


def test_reboot_from_inside_shutdown_and_an_iso_that_was_detached(laboratory: Laboratory) -> None:
    laboratory.power_on(13, "again", LAST)
    laboratory.wait("boot", lambda: laboratory.booted(13))
    first = laboratory.run(13, "cat", "/proc/sys/kernel/random/boot_id"), _row(laboratory, 13)["boot_id"]
    laboratory.run(13, "sh", "-c", "echo kept > /root/kept; systemd-run --on-active=1 systemctl reboot")
    laboratory.wait("reboot", lambda: _row(laboratory, 13)["boot_id"] != first[1])
    laboratory.wait("agent", lambda: laboratory.agent(13))
    assert laboratory.run(13, "cat", "/root/kept") == "kept\n"
    laboratory.call("POST", "/machines/13/power-off", {"how": "shutdown"})
    assert _row(laboratory, 13)["on"] is False
    laboratory.power_on(13, "again", None)
    laboratory.wait("boot", lambda: laboratory.booted(13))
    assert _row(laboratory, 13)["seed"] == "no ISO is attached"
    assert laboratory.run(13, "sh", "-c", "cat /root/kept /etc/was-here; hostname; ls /var/lib/cloud/seed") == (
        "kept\nonceagain\n"
    )
    assert f"{laboratory.net}.13/24" in laboratory.run(13, "ip", "-br", "addr", "show", "eth0")
    laboratory.call("DELETE", "/machines/13")


def test_people_go_in(laboratory: Laboratory) -> None:
    def enter(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "lab.real.enter", "--space", str(SPACE), *words]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    laboratory.power_on(19, "visited", LAST)
    laboratory.wait("boot", lambda: laboratory.booted(19))
    assert enter("visited", "hostname").stdout == "visited\n"
    assert enter("19", "ps", "-p", "1", "-o", "comm=").stdout == "systemd\n"
    assert f"{laboratory.net}.1/24" in enter("", "ip", "-br", "addr").stdout
    assert "No node elsewhere; there are: visited" in enter("elsewhere", "true").stderr
    laboratory.call("POST", "/machines/19/power-off", {"how": "stop"})
    assert enter("visited", "true").stderr == "visited has no power\n"
    laboratory.call("DELETE", "/machines/19")


def test_ways_in_from_outside(laboratory: Laboratory) -> None:
    """A forwarder and the proxy lead to a server in a machine; what nobody serves is told as such."""
    laboratory.power_on(20, "serves", LAST)
    laboratory.wait("boot", lambda: laboratory.booted(20))
    laboratory.run(20, "systemd-run", "python3", "-m", "http.server", "-d", "/etc/cloud", "8080")
    way = {"outside": f"127.0.{SPACE}.20:8080", "inside": f"{laboratory.net}.20:8080"}
    assert laboratory.call("PUT", "/forwards", way) == {"outside": way["outside"]}
    assert way in laboratory.call("GET", "/forwards")
    with pytest.raises(Refused, match="already in use"):
        laboratory.call("PUT", "/forwards", {"outside": f"127.0.{SPACE}.9:8009", "inside": way["inside"]})

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://{way['outside']}/cloud.cfg", timeout=5) as page:
                return b"cloud_init_modules" in page.read()
        except OSError:
            return False

    laboratory.wait("the forwarder", answers, 20)
    tunnel = http.client.HTTPConnection(laboratory.proxy.removeprefix("http://"), timeout=10)
    tunnel.set_tunnel(f"{laboratory.net}.20", 8080)
    tunnel.request("GET", "/cloud.cfg")
    assert tunnel.getresponse().status == 200
    tunnel.close()
    nobody = http.client.HTTPConnection(laboratory.proxy.removeprefix("http://"), timeout=10)
    nobody.set_tunnel(f"{laboratory.net}.20", 9)
    with pytest.raises(OSError, match="502"):
        nobody.request("GET", "/")
    nobody.close()
    laboratory.call("DELETE", f"/forwards/{way['outside']}")
    assert way not in laboratory.call("GET", "/forwards")
    laboratory.call("DELETE", "/machines/20")


def test_another_disk_forgets(laboratory: Laboratory) -> None:
    laboratory.power_on(14, "disk", LAST)
    laboratory.wait("boot", lambda: laboratory.booted(14))
    laboratory.run(14, "touch", "/root/kept")
    laboratory.call("POST", "/machines/14/power-off", {"how": "stop"})
    laboratory.power_on(14, "disk", LAST, disk_id="another")
    laboratory.wait("boot", lambda: laboratory.booted(14))
    assert (
        laboratory.call("POST", "/machines/14/agent/exec", {"command": ["test", "-e", "/root/kept"]})["exitcode"] == 1
    )
    laboratory.call("DELETE", "/machines/14")


def test_vlans_are_apart(laboratory: Laboratory) -> None:
    laboratory.power_on(15, "left", LAST)
    laboratory.power_on(16, "right", LAST, vlan=100)
    laboratory.power_on(17, "near", LAST)
    for vmid in (15, 16, 17):
        laboratory.wait("boot", lambda vmid=vmid: laboratory.booted(vmid))

    def reaches(address: str) -> bool:
        words = ["ping", "-c1", "-W2", address]
        return bool(laboratory.call("POST", "/machines/15/agent/exec", {"command": words})["exitcode"] == 0)

    assert reaches(f"{laboratory.net}.17")
    assert reaches(f"{laboratory.net}.1")
    assert not reaches(f"{laboratory.net}.16")
    bridges = {(row["bridge"], row["vlan"]) for row in laboratory.call("GET", "/state")["bridges"]}
    assert bridges == {("vmbr0", None), ("vmbr0", 100)}
    for vmid in (15, 16, 17):
        laboratory.call("DELETE", f"/machines/{vmid}")


def test_faults_and_what_is_refused(laboratory: Laboratory) -> None:
    with pytest.raises(Refused, match="a fault has a name and of"):
        laboratory.call("POST", "/faults", {"name": "x", "boot_seconds": 3})
    with pytest.raises(Refused, match=r"no template of kubeadm v1\.1\.1") as caught:
        laboratory.power_on(18, "old", LAST, template={"distribution": "kubeadm", "version": "v1.1.1"})
    assert caught.value.status == 409
    laboratory.call("POST", "/faults", {"name": "mute", "never_agent": True})
    laboratory.power_on(18, "mute", PLAIN)
    laboratory.wait("network", lambda: "eth0" in str(laboratory.call("GET", "/machines/18/logs")))
    assert not laboratory.agent(18)
    laboratory.call("DELETE", "/faults")
    laboratory.wait("agent", lambda: laboratory.agent(18))
    laboratory.call("DELETE", "/machines/18")


def test_faults_and_strangers_are_there_before_a_machine_boots(laboratory: Laboratory) -> None:
    stranger = f"{laboratory.net}.90"
    laboratory.call("POST", "/faults", {"name": "hurt-*", "files": {"/etc/fault": "laid"}})
    assert laboratory.call("POST", "/strangers", {"address": stranger, "port": 22}) == [stranger]
    try:
        laboratory.power_on(19, "hurt-1", PLAIN)
        laboratory.wait("agent", lambda: laboratory.agent(19))
        assert laboratory.run(19, "cat", "/etc/fault") == "laid"
        connect = f"import socket; socket.create_connection(('{stranger}', 22), 5)"

        def answers() -> bool:
            words = ["python3", "-c", connect]
            return bool(laboratory.call("POST", "/machines/19/agent/exec", {"command": words})["exitcode"] == 0)

        laboratory.wait("the stranger's answer", answers)
        laboratory.call("DELETE", "/strangers")
        assert not answers()
    finally:
        laboratory.call("POST", "/reset")
    assert laboratory.call("GET", "/faults") == []


def _row(laboratory: Laboratory, vmid: int) -> dict[str, object]:
    return next(dict(row) for row in laboratory.call("GET", "/state")["machines"] if row["vmid"] == vmid)
