"""Stored forms of config.json with their right logits (config_forms.jsonl.xz), and the comparison with sluice.

A line is either {"tensors": {pattern: [shape, indices...]}}, one more table of tensors, or a form:
{"family", "set", "drop", "tensors": number of its table, "rows": logits in units of 1e-4, "refused": the library's
words}. A form with "refused" and "rows" is one that sluice may load with these logits (repaired() of
config_form_library.py says why).
Where "refused" stands alone, sluice has to refuse, too.
"""

import functools
import itertools
import json
import lzma
import os
import pathlib
import re
import shutil
import tempfile
from dataclasses import dataclass

import numpy as np

import config_forms
import tiny_checkpoint

FILE = pathlib.Path(__file__).parent / "config_forms.jsonl.xz"
IDS = tiny_checkpoint.some_ids(100)
POSITIONS = [1, 6, 17, 25, 41, 66, 99]
COLUMNS = [3, 19, 37, 58, 71, 90]
UNIT = 1e-4
TOLERANCE = 1e-3
FAULTS = ("silent difference", "refusal without the key", "broken", "loaded though refused")


@dataclass
class Form:
    number: int
    family: str
    form: dict
    shapes: dict
    rows: np.ndarray | None  # all of them [positions, vocabulary], or those stored [POSITIONS, COLUMNS]
    refused: str | None


# --- tables of tensors ------------------------------------------------------------------------------------------------


def fold(shapes):
    """{pattern: [shape, indices...]}: names that differ in numbers alone, in all combinations; 3 means [0, 1, 2]."""
    groups = {}
    for name, shape in shapes.items():
        pattern = re.sub(r"(?<=\.)\d+(?=\.)", "#", name)
        groups.setdefault((pattern, tuple(shape)), []).append([int(n) for n in re.findall(r"(?<=\.)\d+(?=\.)", name)])
    out = {}
    for (pattern, shape), numbers in groups.items():
        axes = [sorted({n[i] for n in numbers}) for i in range(pattern.count("#"))]
        if pattern in out or len(list(itertools.product(*axes))) != len(numbers):
            for number in numbers:
                out[filled(pattern, number)] = [list(shape)]
        else:
            out[pattern] = [list(shape), *(len(axis) if axis == list(range(len(axis))) else axis for axis in axes)]
    return out


def filled(pattern, numbers):
    for number in numbers:
        pattern = pattern.replace("#", str(number), 1)
    return pattern


def unfold(table):
    return {filled(pattern, numbers): shape for pattern, (shape, *axes) in table.items()
            for numbers in itertools.product(*(range(axis) if isinstance(axis, int) else axis for axis in axes))}


# --- the file ---------------------------------------------------------------------------------------------------------


class Writer:
    def __init__(self):
        self.tables, self.lines = [], []

    def add(self, family, form, shapes, rows, refusal):
        table = fold(shapes)
        if table not in self.tables:
            self.tables.append(table)
        line = {"family": family} | form | {"tensors": self.tables.index(table)}
        if rows is not None:
            line["rows"] = np.rint(rows[np.ix_(POSITIONS, COLUMNS)] / UNIT).astype(int).tolist()
        if refusal is not None:
            line["refused"] = refusal
        self.lines.append(line)

    def write(self):
        lines = [{"tensors": table} for table in self.tables] + self.lines
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        return FILE.stat().st_size


def read():
    tables, out = [], []
    for text in lzma.decompress(FILE.read_bytes()).decode().splitlines():
        line = json.loads(text)
        if "family" not in line:
            tables.append(unfold(line["tensors"]))
            continue
        rows = np.array(line["rows"]) * UNIT if "rows" in line else None
        form = {"set": line["set"], "drop": line["drop"]}
        out.append(Form(len(out), line["family"], form, tables[line["tensors"]], rows, line.get("refused")))
    return out


@functools.cache
def base_shapes(family):
    """The tensors of the family's complete config, whose form is stored, too."""
    return next(form.shapes for form in read() if form.family == family and form.form == {"set": {}, "drop": []})


# --- the comparison ---------------------------------------------------------------------------------------------------


def compare(case, found):
    """The largest difference from the right logits."""
    if case.rows.shape != found.shape:
        found = found[np.ix_(POSITIONS, COLUMNS)]
    return float(np.abs(found - case.rows).max())


def judge(case, program):
    """(verdict, text). Verdicts: "equal", "loaded rightly", "refused, key named", "refused by both", and those of
    FAULTS."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-form-", dir=os.environ.get("TMPDIR")))
    try:
        config = config_forms.apply(case.family, case.form)
        tiny_checkpoint.write_checkpoint(folder / "model", config, case.shapes)
        found = tiny_checkpoint.sluice_logits(program, folder / "model", IDS)
    except tiny_checkpoint.Refused as refusal:
        message = str(refusal).replace(str(folder), "")
        named = any(re.search(rf"\b{re.escape(key)}\b", message) for key in config_forms.changed_keys(case.form))
        if not named:
            return "refusal without the key", f"{message} (the library: {case.refused or 'computes'})"
        return "refused by both" if case.refused else "refused, key named", message
    except AssertionError as error:
        return "broken", str(error)
    finally:
        shutil.rmtree(folder)
    if case.rows is None:
        return "loaded though refused", case.refused
    worst = compare(case, found)
    if worst < TOLERANCE:
        return "loaded rightly" if case.refused else "equal", f"{worst:.1e}"
    return "silent difference", f"{worst:.3g} off"
