#!/usr/bin/env python3
"""Checks the sentences that people read: comments of the sources, docs, and the help of the program.

    tools/check_words.py [--count] [PATH...]

It prints one line for each sentence that breaks a rule and exits 1 if there is any. PATH limits it to files below it.
`--count` prints how many sentences each folder has for each rule instead.

Rules:
  headless    no sentence begins with What, Of, Those, That of, Whoever or How without being a question
  genitive    no comment at the end of a line begins with "of"
  long        no sentence has more than 40 words
  words       "beside", "nobody", "so many" and "is told" are not used: other words say more
"""

import argparse
import collections
import os
import re
import subprocess
import sys

SOURCES = re.compile(r"\.(h|cc|cu|cpp|py|sh|js|css)$")
LEFT_OUT = re.compile(r"^(tests/evals/|tests/mutants/|docs/examples/|models/|src/jinja/tests/)")
HEADLESS = re.compile(r"(What|Of|Those|That of|Whoever|How)\b(?!.*\?$)")
WORDS = re.compile(r"\b(beside|nobody|so many|(?:is|are|was|were|be|been) told)\b", re.IGNORECASE)
MOST_WORDS = 40


def is_code(text):
    """Whether a comment's line is a table, a drawing, or code rather than a sentence."""
    return bool(re.match(r"\s{2,}\S|[-=|+#*<>{}()\[\]$/]|\S+\(.*\)\s*$|[a-z_]+\s*=", text)) or "  " in text.strip()


def split_sentences(text):
    """The sentences of a paragraph."""
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\b(e\.g|i\.e|cf|vs|et al|resp|No|Fig|Sec)\.", r"\1", text)
    return [s.strip() for s in re.split(r"(?<=[.;!?:])\s+(?=[A-Z`\"'])|(?<=[.!?])\s+(?=[a-z])", text) if s.strip()]


def comment_of(line, marker):
    """(code, comment) of a line; the comment is None where there is none."""
    quote = None
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = None
        elif c in "\"'" and not (c == "'" and i > 0 and line[i - 1].isalnum()):
            quote = c
        elif line.startswith(marker, i):
            return line[:i], line[i + len(marker):]
        i += 1
    return line, None


def source_paragraphs(path, lines):
    """(line number, is at the end of a line, text) of each paragraph in comments."""
    marker = "#" if path.endswith((".py", ".sh")) or path in ("run", ".ci/run") else "//"
    start, words = 0, []
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith("#!"):
            continue
        code, comment = comment_of(line, marker)
        if comment is not None and code.strip() == "" and not is_code(comment[1:] if comment[:1] == " " else comment):
            if comment.strip():
                start = start or number
                words.append(comment.strip())
                continue
        if words:
            yield start, False, " ".join(words)
        start, words = 0, []
        if comment is not None and code.strip() and not comment.startswith("NOLINT"):
            yield number, True, comment.strip()
    if words:
        yield start, False, " ".join(words)


def page_paragraphs(lines):
    """The same for a page of Markdown: paragraphs, items of lists, cells of tables; code is left out."""
    fenced, start, words = False, 0, []
    for number, line in enumerate([*lines, ""], 1):
        text = line.strip()
        if text.startswith(("```", "~~~")):
            fenced = not fenced
            text = ""
        if fenced:
            continue
        new = re.match(r"([-*]|\d+\.)\s+", text)
        if (not text or new or text.startswith(("#", "|", "<"))) and words:
            yield start, False, " ".join(words)
            start, words = 0, []
        if text.startswith("|"):
            for cell in text.strip("|").split(" | "):
                yield number, False, cell.strip()
        elif text and not text.startswith(("#", "<", "!")):
            start = start or number
            words.append(text[new.end():] if new else text)


def faults_of(sentence, at_end):
    """The rules that a sentence breaks."""
    if HEADLESS.match(sentence) and not at_end:
        yield "headless"
    if at_end and re.match(r"(of|Of|those|that of)\b", sentence):
        yield "genitive"
    if len(sentence.split()) > MOST_WORDS:
        yield "long"
    if WORDS.search(sentence):
        yield "words"


def main():
    """Reads the tracked files and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = subprocess.check_output(["git", "ls-files", *options.paths], text=True).splitlines()
    counts, sentences, words = collections.Counter(), 0, 0
    for path in files:
        is_page = path.endswith(".md")
        if LEFT_OUT.match(path) or not (is_page or SOURCES.search(path) or path in ("run", ".ci/run")):
            continue
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, at_end, text in page_paragraphs(lines) if is_page else source_paragraphs(path, lines):
            for sentence in split_sentences(text):
                sentences += 1
                words += len(sentence.split())
                for fault in faults_of(sentence, at_end):
                    folder = "/".join(path.split("/")[:2]) if path.startswith("src/") else path.split("/")[0]
                    counts[folder, fault] += 1
                    if not options.count:
                        print(f"{path}:{number}: {fault}: {sentence[:160]}")
    if options.count:
        for (folder, fault), count in sorted(counts.items()):
            print(f"{folder:24} {fault:10} {count:5}")
        print(f"{sentences} sentences of {words / max(1, sentences):.1f} words, {sum(counts.values())} faults")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
