"""docs/mutants.md: what found each fault of tests/mutants."""

import datetime
import pathlib
import re
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "mutants.md"
QUICK_SECONDS = 60


def summary(records):
    """Lines on how many were found, by whom, and how fast."""
    tried = {name: r for name, r in records.items() if r["result"] != "skipped"}
    found = {name: r for name, r in tried.items() if r["result"] in ("found", "hung")}
    quick = [r for r in found.values() if r["seconds"] <= QUICK_SECONDS and own_test(r)]
    lines = [f"{len(found)} of {len(tried)} faults found, {len(quick)} of them within {QUICK_SECONDS} s by the tests "
             "of their own layer."]
    if skipped := sorted(records.keys() - tried.keys()):
        lines.append(f"Not tried on this machine: {', '.join(skipped)}.")
    if others := sorted(tried.keys() - found.keys()):
        lines.append(f"Not found: {', '.join(others)}.")
    return lines


def own_test(record):
    return pathlib.Path(record["test"].split()[0]).name == record["layer"] + "_test"


def table(records):
    lines = ["| fault | layer | what goes wrong | found by | seconds |", "|---|---|---|---|---|"]
    for name, record in records.items():
        by = {"survived": "**nothing**", "broken": "**not tried**", "skipped": f"not tried: {record.get('why')}"}
        test = by.get(record["result"]) or f"`{record['tests'][0]}`"
        hung = " (hung)" if record["result"] == "hung" else ""
        seconds = f"{record['seconds']:.1f}{hung}" if record["result"] in ("found", "hung") else ""
        lines.append(f"| `{name}` | {record['layer']} | {record['fault']} | {test} | {seconds} |")
    return lines


ROW = re.compile(r"\| `(.*?)` \| (.*? \| .*) \| `(.*)` \| ([0-9.]+)( \(hung\))? \|")


def documented(mutants):
    """What the document says of mutants whose layer and fault it names as they are now."""
    records = {}
    for line in DOCUMENT.read_text().splitlines():
        if (row := ROW.fullmatch(line)) and row[1] in mutants:
            fields = mutants[row[1]].fields
            if row[2] != f"{fields['layer']} | {fields['fault']}":
                continue
            result = {"result": "hung" if row[5] else "found", "tests": [row[3]], "seconds": float(row[4])}
            records[row[1]] = fields | result
    return records


def write(mutants, wrong, tried, machine):
    """The page of all mutants: records of what was tried, else what it says already. Exit code 1: some have no result."""
    records = documented(mutants) | tried
    missing = sorted(mutants.keys() - records.keys())
    for name in missing:
        records[name] = mutants[name].fields | {"result": "skipped", "why": "no run yet"}
    records = dict(sorted(records.items()))
    if missing or wrong:
        print(f"no result: {', '.join(missing + sorted(wrong))}", file=sys.stderr)
    DOCUMENT.write_text("\n".join([
        "# Mutants",
        "",
        f"Written by `./run mutants --markdown`; {datetime.date.today().isoformat()}, {machine}.",
        "",
        "Faults that somebody could make, planted one at a time (`./run mutants`), and the first test that noticed",
        "each, in seconds from the start of the command in its file. `tests/mutants` says what a user would see.",
        "",
        *summary(records),
        "",
        *table(records),
    ]) + "\n")
    return 1 if missing or wrong else 0
