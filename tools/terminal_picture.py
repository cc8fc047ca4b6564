#!/usr/bin/env python3
"""terminal_picture.py OUT.svg COMMAND...: runs each command by bash and draws what it writes to standard output.

  PATH=build:$PATH tools/terminal_picture.py docs/pictures/verify.svg "sluice verify --seed 7"
  PATH=build:$PATH tools/terminal_picture.py docs/pictures/same_digest.svg "cat ask.json ask.sh" "sh ask.sh" \\
    "sluice bench serve http://127.0.0.1:8000 --concurrency 32 --requests 500 >/dev/null 2>&1 & sleep 10; sh ask.sh" \\
    "sluice bench serve http://127.0.0.1:8000 --check-determinism --requests 60"

The pictures of README.md and docs/guarantees.md are made so; for the second a server runs. Long lines are broken between
words."""

import html
import pathlib
import subprocess
import sys
import textwrap

COLUMNS, LINE, LEFT, TOP = 100, 19, 16, 46
CHARACTER = 7.83  # the width in 13 px DejaVu Sans Mono


def transcript(commands):
    for command in commands:
        yield "command", command
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=True)
        for line in done.stdout.splitlines():
            for part in textwrap.wrap(line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False) or [""]:
                yield "output", part


def picture(lines):
    width, height = round(2 * LEFT + COLUMNS * CHARACTER), TOP + LINE * len(lines)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13">')
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f27"/>'
    for x, color in ((20, "#e5635a"), (38, "#dfae3c"), (56, "#5fb356")):
        yield f'<circle cx="{x}" cy="17" r="5.5" fill="{color}"/>'
    for row, (kind, text) in enumerate(lines):
        prompt = '<tspan fill="#5fb356">$ </tspan>' if kind == "command" else ""
        color = "#ffffff" if kind == "command" else "#c3cad6"
        yield (f'<text x="{LEFT}" y="{TOP + LINE * row}" fill="{color}" xml:space="preserve">'
               f"{prompt}{html.escape(text, quote=False)}</text>")
    yield "</svg>"


if len(sys.argv) < 3:
    sys.exit(__doc__)
pathlib.Path(sys.argv[1]).write_text("\n".join(picture(list(transcript(sys.argv[2:])))) + "\n")
