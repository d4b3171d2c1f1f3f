"""What the pages believe about the API is what the API says."""

import json
import subprocess
from pathlib import Path

from api.app import create_app
from tests.e2e.running import ROOT

UI = ROOT / "ui"


def test_the_openapi_document_is_fresh() -> None:
    stored = json.loads((UI / "openapi.json").read_text())
    assert stored == create_app(None).openapi(), "python -m api.openapi > ui/openapi.json && npm run types (in ui/)"


def test_the_types_are_made_from_it(tmp_path: Path) -> None:
    made = tmp_path / "schema.d.ts"
    program = UI / "node_modules" / ".bin" / "openapi-typescript"
    subprocess.run([str(program), "openapi.json", "-o", str(made)], cwd=UI, check=True, capture_output=True)
    assert made.read_text() == (UI / "src" / "api" / "schema.d.ts").read_text(), "npm run types (in ui/)"
