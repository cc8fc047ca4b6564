"""Public reports about other engines, each remade small: tests/reports/README.md says how a line is added."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import report_checks  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "reports"
LINES = [pytest.param(json.loads(text), id=f"{file.stem}:{number}")
         for file in sorted(FOLDER.glob("*.jsonl"))
         for number, text in enumerate(file.read_text().splitlines(), 1) if text.strip()]


@pytest.mark.parametrize("line", LINES)
def test_report(line, tmp_path):
    found = report_checks.complaints(line["case"], line["expect"], tmp_path)
    assert not found, f"{line['reference']}: {line['what']}\n" + "\n".join(found).replace(str(tmp_path), "")
