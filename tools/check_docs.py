#!/usr/bin/env python3
"""check_docs.py: the bounds of the documents, and what can be known of them without a built program.

- docs/ has at most 40 pages, 4,500 lines and 60,000 words; README.md 120 lines, 900 words and 160 characters a line;
  CONTRIBUTING.md 120 lines.
- No page is a dated diary: no file name in docs/ has a date. Every page says in its first lines for whom it is.
- Every `./run COMMAND`, in pages, workflows and templates, names a command of ./run, and every flag behind it occurs in
  ./run or in the script that it calls.
- The development container has every package that ./run installs to build, to test and to check.
- Every flag behind a script of bench/, tools/ and tests/ occurs in that script.
- CMakeLists.txt, CHANGELOG.md and CITATION.cff say the same version.

Commands of the program `sluice` are compared with its help by tests/docs_test.py, links by check_references.py. With a
folder as argument it checks that tree."""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, *sorted((ROOT / "models").rglob("*.md"))]
CALLERS = [*PAGES, *sorted((ROOT / ".github").rglob("*.md")), *sorted((ROOT / ".github").rglob("*.yml"))]
FOUND = []


def bound(what, number, most):
    if number > most:
        FOUND.append(f"{what}: {number}, more than {most}")


def has(text, flag):
    """Whether the text has that very flag, not a longer one."""
    return re.search(re.escape(flag) + r"(?![\w-])", text) is not None


def check_bounds():
    texts = [page.read_text() for page in DOCS]
    bound("pages in docs/", len(texts), 40)
    bound("lines in docs/", sum(text.count("\n") for text in texts), 4500)
    bound("words in docs/", sum(len(text.split()) for text in texts), 60_000)
    readme = (ROOT / "README.md").read_text()
    bound("lines of README.md", readme.count("\n"), 120)
    bound("words of README.md", len(readme.split()), 900)
    bound("characters in a line of README.md", max(map(len, readme.splitlines())), 160)
    bound("lines of CONTRIBUTING.md", (ROOT / "CONTRIBUTING.md").read_text().count("\n"), 120)
    FOUND.extend(f"{page.relative_to(ROOT)}: dated pages belong into commits" for page in DOCS
                 if re.search(r"\d{4}-\d\d-\d\d", page.name))
    FOUND.extend(f"{page.relative_to(ROOT)}: its first lines do not say for whom it is (For whoever ...)"
                 for page, text in zip(DOCS, texts) if "For whoever" not in "\n".join(text.splitlines()[:4]))


def commands(page):
    """Every ./run with its words, in blocks of code and in `code` within a line."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for found in re.finditer(r"\./run((?: +(?!#)[^\s`|;&()]+)*)", line):
            yield number, found[1].split()


def check_run():
    script = (ROOT / "run").read_text()
    names = set(re.search(r"^  ([a-z |]+)\) \"\$\{command\}_command\"", script, re.M)[1].replace(" ", "").split("|")) | {"help"}
    called = {"mutants": ["tools/mutants.py", "tools/random_mutants.py"], "bench": ["bench"], "serve": ["cli"]}
    for page in CALLERS:
        for number, words in commands(page):
            place = f"{page.relative_to(ROOT)}:{number}"
            if not words or not re.fullmatch(r"[a-z]+[,.:]?", words[0]):
                continue
            name = words[0].rstrip(",.:")
            if name not in names:
                FOUND.append(f"{place}: `./run {name}` is no command of ./run")
                continue
            sources = [script, *(file.read_text() for source in called.get(name, []) for file in
                                 ([ROOT / source] if (ROOT / source).is_file() else (ROOT / source).rglob("*.cc")))]
            for flag in (match[0] for word in words[1:] if (match := re.match(r"--[a-z][\w-]*", word))):
                if not any(has(text, flag) for text in sources):
                    FOUND.append(f"{place}: `./run {name}` has no flag {flag}")


def check_scripts():
    """The flags behind a script of the tree stand in its text."""
    for page in CALLERS:
        for number, line in enumerate(page.read_text().replace("\\\n", " ").splitlines(), 1):
            for name, words in re.findall(r"((?:bench|tools|tests)/[\w/]+\.(?:py|sh))((?: +(?!#)[^\s`|;&()]+)*)", line):
                if not (ROOT / name).is_file():
                    continue  # check_references.py says so
                text = (ROOT / name).read_text()
                FOUND.extend(f"{page.relative_to(ROOT)}:{number}: {name} has no flag {flag}"
                             for flag in re.findall(r" (--[a-z][\w-]*)", words) if not has(text, flag))


def check_versions():
    said = {
        "CMakeLists.txt": re.search(r"project\(sluice VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()),
        "CHANGELOG.md": re.search(r"^## (\d[\d.]*)", (ROOT / "CHANGELOG.md").read_text(), re.M),
        "CITATION.cff": re.search(r"^version: ([\d.]+)", (ROOT / "CITATION.cff").read_text(), re.M),
    }
    versions = {file: match and match[1] for file, match in said.items()}
    if len(set(versions.values())) != 1 or None in versions.values():
        FOUND.append(f"versions differ: {versions}")


def check_container():
    script, container = (ROOT / "run").read_text(), (ROOT / ".devcontainer" / "Containerfile").read_text().split()
    for task in ("build", "test", "check"):
        for package in re.search(rf"^{task}_packages=\((.*?)\)", script, re.M | re.S)[1].split():
            if "$" not in package and package not in container:
                FOUND.append(f".devcontainer/Containerfile: {package} is missing, which ./run installs to {task}")


check_bounds()
check_run()
check_scripts()
check_container()
check_versions()
print("\n".join(FOUND), file=sys.stderr, end="\n" if FOUND else "")
sys.exit(bool(FOUND))
