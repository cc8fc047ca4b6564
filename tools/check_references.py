#!/usr/bin/env python3
"""check_references.py: what the source and the pages refer to exists.

In C++ files: each `docs/….md` is a page; a section, `docs/models/X.md §4.3`, is a heading of the page named before it on
the same line, and no section is cited without its page, or the standard or paper that it is of. In pages: each link to a
file of the tree, and to a heading of a page, resolves, and each src/…, tests/… and the like is there, in text and code.
Names of classes and functions in docs/dev and the glossary are in the source. With a folder as argument it checks that
tree."""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
SOURCE = [f for d in ("include", "src", "cli", "tests", "bench") for s in ("*.h", "*.cc", "*.cu")
          for f in (ROOT / d).rglob(s)]
PAGES = [*ROOT.glob("*.md"), *(page for d in ("docs", "models", "src", "tests", ".github") for page in ROOT.glob(d + "/**/*.md"))]


def headings(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"^#+ (.+)$", text, re.M)


def sections(page):
    return {m[1] for title in headings(page) if (m := re.match(r"(\d+(?:\.\d+)*)\.? ", title))}


def anchors(page):
    """As GitHub makes them: lower case, punctuation left out, hyphens for spaces."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings(page)}


def wrong_in_source(line):
    page = None
    for name, section in re.findall(r"(docs/[\w./-]+\.md)|§([\d.]*\d|)", line):
        if name:
            page = ROOT / name
            if not page.is_file():
                yield f"there is no {name}"
        elif page is None:
            yield "a section without its page"
        elif page.is_file() and section not in sections(page):
            yield f"{page.relative_to(ROOT)} has no section {section or 'of that name'}"
    if re.search(r"\b[Ss]ections? \d", line) and not re.search(r"[Ss]tandard|RFC|[Pp]aper|in man's", line):
        yield "a section without its page"


def wrong_in_page(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        if not linked.exists():
            yield f"a link to {target}, which does not exist"
        elif anchor and anchor not in anchors(linked):
            yield f"a link to {target}: there is no such heading"
    for name in sorted(set(re.findall(r"(?<![\w/.$-])((?:src|include|cli|tests|tools|docs|bench|cmake|models|packaging|examples)/[\w./*{},-]*)",
                                      page.read_text()))):
        name = name.rstrip(".,/")
        if not re.search(r"[A-Z]{3}", name) and not exists(name) and not (page.parent / name).exists():
            yield f"there is no {name}"


def exists(name):
    """Of a path, or of several: weights.{h,cc}; bench/NAME_bench and tests/NAME_test are programs of the build folder."""
    if braces := re.search(r"\{([^}]*)\}", name):
        return all(exists(name.replace(braces[0], part)) for part in braces[1].split(","))
    return "/" not in name or any(ROOT.glob(name)) or any(ROOT.glob(name.replace("_bench", "_bench.cc")))


def names_in_source():
    return set(word for file in SOURCE for word in re.findall(r"\b[A-Za-z]\w+\b", file.read_text()))


def wrong_names(page, known):
    """`Class::function`, and types of the source in CamelCase, as pages for contributors name them."""
    for name in sorted(set(re.findall(r"`((?:[A-Z][a-z]+)+(?:::\w+)*)[`(]", page.read_text()))):
        if missing := [part for part in name.split("::") if part not in known]:
            yield f"the source has no {missing[0]} ({name})"


found = [f"{file.relative_to(ROOT)}:{n}: {fault}" for file in SOURCE
         for n, line in enumerate(file.read_text().splitlines(), 1) if "§" in line or "docs/" in line or "ection" in line
         for fault in wrong_in_source(line)]
found += [f"{page.relative_to(ROOT)}: {fault}" for page in PAGES for fault in wrong_in_page(page)]
known = names_in_source()
found += [f"{page.relative_to(ROOT)}: {fault}" for page in [*(ROOT / "docs" / "dev").glob("*.md"), ROOT / "docs" / "glossary.md"]
          for fault in wrong_names(page, known)]
print("\n".join(sorted(found)), file=sys.stderr, end="\n" if found else "")
sys.exit(bool(found))
