"""examples/dev-kubeadm.yaml on real nodes: one server, two workers, Calico; driven by the command line alone."""

import sys
import pytest

from tests.real.running import RealTrilithon

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]


def test_comes_and_goes(platform: RealTrilithon) -> None:
    before = platform.state()
    platform.run("apply", "-f", str(platform.manifest("dev-kubeadm.yaml")))
    took = platform.available("dev")
    sys.stderr.write(f"\n1+2 with Calico Available {took:.0f} s after apply\n")
    platform.delete("dev")
    assert platform.state() == before
