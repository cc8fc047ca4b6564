"""The documents against the program: every command line of `sluice` names a command and flags that its help has, every
flag of docs/cli.md exists, and every command and flag of the program is in docs/cli.md. ./run's commands, links and
paths are compared by tools/check_docs.py and tools/check_references.py, which need no built program."""

import functools
import re

import pytest

from program import ROOT, sluice

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "models").rglob("*.md"))]
# Flags that the help leaves out, on purpose.
HIDDEN = {"verify": {"--inject"}}
# Pages that name flags of other programs, and of versions that are gone.
OTHERS = {"CHANGELOG.md"}


@functools.cache
def subcommands():
    return set(re.findall(r"^  ([a-z]+) ", sluice("--help").stdout.split("Subcommands:")[1], re.M))


@functools.cache
def flags(*command):
    """Of a command as its help has them; --[no-]x stands for --x and --no-x."""
    text = sluice(*command, "--help").stdout
    found = set()
    for flag in re.findall(r"--(?:\[no-\])?[a-z][\w-]*", text):
        name = flag.replace("[no-]", "")
        found |= {name, "--no-" + name[2:]} if "[no-]" in flag else {name}
    return found | HIDDEN.get(" ".join(command), set())


def command_lines(page):
    """(line, words) of each call of sluice: in blocks of code, `code` within a line, and shell prompts."""
    text = page.read_text().replace("\\\n", "  ")
    text = re.sub(r"\$COMMON \$GPU|\$COMMON", "", text)
    for number, line in enumerate(text.splitlines(), 1):
        for match in re.finditer(r"(?:(?<=`)|^|[$(|] ?|run\([^)]*\) )(?:build/)?sluice +([^`#|&;)\n]*)", line):
            words = match[1].split()
            if words:
                yield number, words


def wrong(words):
    if words[0].startswith("-"):
        command, rest = (), words
    elif not re.fullmatch(r"[a-z]+", words[0]):
        return  # a placeholder
    elif words[0] not in subcommands():
        yield f"there is no command {words[0]}"
        return
    else:
        command = ("bench", "serve") if words[:2] == ["bench", "serve"] else (words[0],)
        rest = words[len(command):]
    for word in rest:
        if (match := re.match(r"--(?:\[no-\])?[a-z][\w-]*", word)) and match[0].replace("[no-]", "") not in flags(*command):
            yield f"sluice {' '.join(command)} has no flag {match[0]}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in OTHERS], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands(page):
    faults = [f"line {number}: {fault}" for number, words in command_lines(page) for fault in wrong(words)]
    assert not faults, faults


def test_commands_are_found():
    assert sum(len(list(command_lines(page))) for page in PAGES) > 80


def test_the_manual_has_every_command():
    manual = (ROOT / "docs" / "cli.md").read_text()
    table = manual.split("| command | what it does |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `((?:bench serve|[a-z]+))[^`]*` \| (.*) \|$", table, re.M)
    assert {command for command, _ in rows} - {"bench serve"} == subcommands()
    for command, row in rows:
        for flag in re.findall(r"`(--(?:\[no-\])?[a-z][\w-]*)", row):
            assert flag.replace("[no-]", "") in flags(*command.split()), (command, flag)


def test_the_manual_has_every_flag():
    pages = "".join(page.read_text() for page in PAGES).replace("[no-]", "")
    for command in sorted(subcommands()):
        missing = {flag for flag in flags(command) if flag.replace("--no-", "--") not in pages and flag not in pages}
        assert not missing, (command, missing)
