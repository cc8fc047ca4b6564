#!/usr/bin/env python3
"""api_reference.py [FILE]: writes the reference of the headers in include/sluice as one page of Markdown.

Each declaration stands as code below the comment that the header has above it; a header's head comment begins its part.
The page is not kept in the tree."""

import pathlib
import re
import sys

HEADERS = sorted((pathlib.Path(__file__).resolve().parent.parent / "include" / "sluice").glob("*.h"))


def without_slashes(comment):
    return "\n".join(re.sub(r"^// ?", "", line) for line in comment)


def split(text):
    """(comment, code) of each declaration on the first level of namespace sluice."""
    body = text.split("namespace sluice {\n", 1)[1].rsplit("}  // namespace sluice", 1)[0]
    comment, code, depth = [], [], 0
    for line in body.splitlines():
        if depth == 0 and not code and line.startswith("//"):
            comment.append(line)
            continue
        if depth == 0 and not line.strip():
            comment = comment if code else []
            if code:
                yield comment, code
            comment, code = [], []
            continue
        code.append(line)
        bare = re.sub(r"//.*|\"[^\"]*\"", "", line)
        depth += bare.count("{") + bare.count("(") - bare.count("}") - bare.count(")")
        if depth == 0 and bare.rstrip().endswith((";", "}")):
            yield comment, code
            comment, code = [], []
    if code:
        yield comment, code


def page():
    yield "# The headers of Sluice\n"
    yield "Written by `tools/api_reference.py` from `include/sluice`. Everything is in the namespace `sluice`.\n"
    for header in HEADERS:
        text = header.read_text()
        yield f"## {header.name}\n"
        yield without_slashes(re.match(r"((?://.*\n)*)", text)[1].splitlines()) + "\n"
        for comment, code in split(text):
            title = re.search(r"(?:struct|class|enum class|using)\s+(?:\[\[\w+\]\]\s+)?(\w+)|(\w+)\(|(\w+)(?:\{| =)", re.sub(r"template <[^>]*>", "", "\n".join(code)))
            yield f"### {next(filter(None, title.groups()))}\n" if title else ""
            if comment:
                yield without_slashes(comment) + "\n"
            yield "```cpp\n" + "\n".join(code) + "\n```\n"


text = "\n".join(page())
if sys.argv[1:]:
    pathlib.Path(sys.argv[1]).write_text(text)
else:
    print(text)
