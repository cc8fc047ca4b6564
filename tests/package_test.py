"""The Debian package: what is in it, that the program runs out of it, its manual pages and completions."""

import gzip
import json
import re
import subprocess

import pytest

from program import BUILD, ROOT, SLUICE, sluice

COMMANDS = re.findall(r"^  ([a-z]+)  ", sluice("--help").stdout.split("Subcommands:")[1], re.MULTILINE)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    subprocess.run(["cpack", "-G", "DEB", "-B", folder], cwd=BUILD, check=True, capture_output=True)
    (deb,) = folder.glob("sluice_*.deb")
    return deb


@pytest.fixture(scope="module")
def installed(package, tmp_path_factory):
    root = tmp_path_factory.mktemp("installed")
    subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    return root


def control(package, field):
    return subprocess.run(["dpkg-deb", "-f", package, field], check=True, capture_output=True, text=True).stdout.strip()


def test_it_needs_the_c_library_alone(package):
    assert control(package, "Package") == "sluice"
    assert control(package, "Version") == sluice("--version").stdout.split()[1]
    assert re.fullmatch(r"libc6 \(>= [0-9.]+\)", control(package, "Depends"))


def test_it_answers_from_where_it_was_unpacked(installed):
    answer = ["run", "-p", "What is 12 + 30?", "--temperature", "0"]
    unpacked = subprocess.run([installed / "usr/bin/sluice", *answer], cwd=installed, env={}, capture_output=True,
                              text=True, timeout=120)
    assert unpacked.returncode == 0, unpacked.stderr
    assert unpacked.stdout == sluice(*answer).stdout != ""


def test_it_leaves_the_library_to_those_who_build(installed):
    assert not list(installed.rglob("*.h")) and not list(installed.rglob("*.a"))


def test_every_command_and_flag_has_its_manual_page(installed):
    pages = installed / "usr/share/man/man1"
    assert {page.name for page in pages.iterdir()} == {"sluice.1.gz"} | {f"sluice-{c}.1.gz" for c in COMMANDS}
    macros = {".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".I"}
    for command in COMMANDS:
        text = gzip.open(pages / f"sluice-{command}.1.gz", "rt").read()
        shown = sluice(command, "--help").stdout
        if command == "bench":
            # On the same page; "--stream,--no-stream{false}" are two.
            shown += sluice("bench", "serve", "--help").stdout.replace(",--no-", "\n  --no-")
        flags = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", shown, re.MULTILINE))
        assert flags == set(re.findall(r"\\fB(--[\w-]+)\\fR", text.replace("\\-", "-")))
        assert {line.split(" ")[0] for line in text.splitlines() if line.startswith(".")} <= macros, command


def completed(script, *words):
    quoted = " ".join(f"'{word}'" for word in words)
    ask = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _sluice; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", ask], check=True, capture_output=True, text=True).stdout.split()


def test_bash_completes_commands_flags_and_files(installed):
    script = installed / "usr/share/bash-completion/completions/sluice"
    assert completed(script, "sluice", "") == [*COMMANDS, "-h", "--help", "--version"]
    assert completed(script, "sluice", "serve", "--max-num") == ["--max-num-batched-tokens", "--max-num-seqs"]
    assert completed(script, "sluice", "eval", "--task", f"{ROOT}/READ") == [f"{ROOT}/README.md"]
    assert completed(script, "sluice", "serve", "--port", "") == []


@pytest.mark.parametrize("shell, script", [("zsh", "zsh/vendor-completions/_sluice"),
                                           ("fish", "fish/vendor_completions.d/sluice.fish")])
def test_other_shells_have_every_flag(installed, shell, script):
    text = (installed / "usr/share" / script).read_text()
    assert text == sluice("completion", shell).stdout
    for flag in re.findall(r"^  (?:-\w,)?--([\w-]+)", sluice("serve", "--help").stdout, re.MULTILINE):
        assert re.search(rf"(--| -l ){flag}\b", text), flag


def test_the_service_and_the_container_start_what_is_there(package, installed):
    unit = (installed / "usr/lib/systemd/system/sluice.service").read_text()
    program = re.search(r"^ExecStart=(\S+) serve \$SLUICE_ARGS$", unit, re.MULTILINE)[1]
    assert (installed / program.lstrip("/")).is_file()
    settings = re.search(r"^EnvironmentFile=-(\S+)$", unit, re.MULTILINE)[1]
    assert "SLUICE_ARGS" in (installed / settings.lstrip("/")).read_text()
    conffiles = subprocess.run(["dpkg-deb", "-I", package, "conffiles"], check=True, capture_output=True, text=True)
    assert conffiles.stdout.split() == [settings]
    container = (ROOT / "packaging/Containerfile").read_text()
    entry, arguments = (json.loads(re.search(rf"^{word} (.*)$", container, re.MULTILINE)[1])
                        for word in ("ENTRYPOINT", "CMD"))
    assert entry == ["sluice"]
    help_text = sluice(arguments[0], "--help").stdout
    assert all(flag in help_text for flag in arguments[1::2])


def test_what_is_linked_in_comes_with_its_licence(installed):
    notices = {file.name for file in (installed / "usr/share/doc/sluice/third-party").iterdir()}
    assert {"libfmt-dev", "libcli11-dev", "libpcre2-dev", "libutf8proc-dev", "libssl-dev", "zlib1g-dev",
            "libzstd-dev"} <= notices
    # Their names have the system's version: libboost1.81-dev and libstdc++-12-dev on Debian 12.
    assert all(any(name.startswith(start) for name in notices) for start in ("libboost1.", "libstdc++-"))
    assert (installed / "usr/share/doc/sluice/copyright").is_file()
    assert SLUICE.exists()
