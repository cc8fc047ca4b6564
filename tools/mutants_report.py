"""Writes what found each fault of tests/mutants: a table and a summary, which tools/mutants.py prints."""

import pathlib

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
