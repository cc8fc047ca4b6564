"""Whether this Python has the packages of requirements.txt; without them no test in Python is run. Needs none itself."""

import importlib.metadata
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTS = ("requirements.txt", "requirements_alone.txt")


def missing():
    """Lines of the lists that are not met, and what is there instead."""
    lines = [line for name in LISTS for line in (ROOT / "tests" / name).read_text().splitlines()]
    for line in lines:
        name, _, version = line.partition("#")[0].strip().partition("==")
        if not name:
            continue
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "none"
        if found != version:
            yield f"{name}=={version}, found {found}"


wrong = list(missing())
if wrong:
    print(f"{sys.executable}: expected {'; '.join(wrong)}\n"
          f"./run test makes a Python that has them. Without it: python3 -m venv {ROOT}/.cache/venv, then\n"
          f"{ROOT}/.cache/venv/bin/pip install -r {ROOT}/tests/requirements.txt, the same with --no-deps and "
          f"requirements_alone.txt, then cmake with "
          f"-DSLUICE_TEST_PYTHON={ROOT}/.cache/venv/bin/python")
    sys.exit(1)
