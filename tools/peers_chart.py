#!/usr/bin/env python3
"""peers_chart.py: draws docs/pictures/peers.svg, the bar chart of README.md, from the tables of docs/performance.md.

Each group of bars is a row of the first table "beside other engines": tokens a second of each engine as a share of the
fastest one. --check only compares the picture with the tables."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "pictures" / "peers.svg"
ENGINES = {"Sluice": "#2f7ed8", "ik_llama.cpp": "#9aa7b4", "llama.cpp": "#c9b27c"}
LEFT, WIDTH, BAR, GAP = 292, 420, 13, 13


def rows():
    """(model, task, {engine: tokens a second}) of the first table behind the heading."""
    text = PAGE.read_text()
    table = re.search(r"## On a CPU, next to other engines.*?\n(\| model .*?)\n\n", text, re.S)[1].splitlines()
    engines = [cell.strip() for cell in table[0].strip("|").split("|")][2:]
    model = ""
    for line in table[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        model = cells[0] or model
        speeds = {engine: float(cell.replace(",", "")) for engine, cell in zip(engines, cells[2:]) if cell}
        yield model, cells[1], speeds


def picture():
    groups = list(rows())
    height = 64 + sum(GAP + BAR * len(speeds) for _, _, speeds in groups)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height}" width="800" height="{height}" '
           'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11.5">')
    yield f'<rect width="800" height="{height}" rx="8" fill="#ffffff"/>'
    yield ('<text x="16" y="24" font-size="14" font-weight="bold" fill="#1c2733">Tokens a second on two cores of an AMD EPYC '
           "(Zen 4), 2026-11-22, longer is faster</text>")
    for i, (engine, color) in enumerate(ENGINES.items()):
        yield f'<rect x="{LEFT + 130 * i}" y="36" width="11" height="11" fill="{color}"/>'
        yield f'<text x="{LEFT + 130 * i + 17}" y="46" fill="#3a4753">{engine}</text>'
    y = 58
    for model, task, speeds in groups:
        yield f'<text x="{LEFT - 10}" y="{y + BAR}" text-anchor="end" fill="#1c2733">{model}: {task}</text>'
        for engine, speed in speeds.items():
            length = max(2, round(WIDTH * speed / max(speeds.values())))
            yield f'<rect x="{LEFT}" y="{y}" width="{length}" height="{BAR - 2}" fill="{ENGINES[engine]}"/>'
            yield f'<text x="{LEFT + length + 6}" y="{y + BAR - 3}" fill="#3a4753">{speed:,.0f}</text>'
            y += BAR
        y += GAP
    yield "</svg>"


text = "\n".join(picture()) + "\n"
if sys.argv[1:] != ["--check"]:
    PICTURE.write_text(text)
elif PICTURE.read_text() != text:
    sys.exit("docs/pictures/peers.svg is not what docs/performance.md says: run tools/peers_chart.py")
