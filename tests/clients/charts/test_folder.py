"""Charts are found by name in a folder; a missing one is named with what to do."""

import tarfile
from pathlib import Path

import pytest

from clients.charts import ChartFolder, ChartMissing


def tree(folder: Path, name: str, version: str) -> Path:
    chart = folder / name
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: {version}\n")
    return chart


def test_trees_and_archives_are_found(tmp_path: Path) -> None:
    packed = tree(tmp_path / "elsewhere", "other", "2.0.0")
    (tmp_path / "charts").mkdir()
    with tarfile.open(tmp_path / "charts" / "other-2.0.0.tgz", "w:gz") as archive:
        archive.add(packed, arcname="other")
    tree(tmp_path / "charts", "some", "1.2.3")
    charts = ChartFolder(tmp_path / "charts")
    assert [(c.name, c.version) for c in charts.all()] == [("other", "2.0.0"), ("some", "1.2.3")]
    assert charts.find("some").path == tmp_path / "charts" / "some"
    assert len(charts.find("other").digest) == 64


def test_a_chart_put_there_later_is_seen(tmp_path: Path) -> None:
    charts = ChartFolder(tmp_path)
    with pytest.raises(ChartMissing, match="wanted is not in"):
        charts.find("wanted")
    tree(tmp_path, "wanted", "1.0.0")
    assert charts.find("wanted").version == "1.0.0"


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert ChartFolder(tmp_path / "none").all() == []
