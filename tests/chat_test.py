"""Chat from end to end: flags, templates and parsers over the embedded model and over a small random Qwen3 with a template,
served to the OpenAI client."""

import json
import pathlib
import subprocess
import sys

import openai
import pytest
import tokenizers
from transformers.utils import chat_template_utils

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from server_process import BUILD, ROOT, Server  # noqa: E402

TEMPLATES = ROOT / "tests" / "chat_templates"
EMBEDDED = ROOT / "models" / "sluice-tiny-v4"
QUESTION = "What is 17 + 25?"
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "head_dim": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 128,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True,
    "vocab_size": 4096, "eos_token_id": 1, "hidden_act": "silu", "attention_bias": False, "torch_dtype": "bfloat16",
    "use_sliding_window": False, "sliding_window": None,
}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Oslo?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {
        "name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "-5 °C"},
]


def run(*arguments, code=0):
    done = subprocess.run([str(a) for a in (BUILD / "sluice", "run", "--log-level", "error", *arguments)], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory):
    """A folder with random weights, whose tokenizer asks for BOS and whose template is Qwen3's."""
    folder = tmp_path_factory.mktemp("chat")
    (folder / "config.json").write_text(json.dumps(QWEN3))
    model = folder / "model"
    subprocess.run([BUILD / "sluice", "synth", folder / "config.json", model, "--tokenizer", EMBEDDED], check=True,
                   capture_output=True)
    config = json.loads((EMBEDDED / "tokenizer_config.json").read_text()) | {
        "add_bos_token": True, "tokenizer_class": "LlamaTokenizerFast"}
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    (model / "chat_template.jinja").write_text((TEMPLATES / "qwen3.jinja").read_text())
    return model


def tokens(text):
    return tokenizers.Tokenizer.from_file(str(EMBEDDED / "tokenizer.json")).encode(text, add_special_tokens=False).ids


def rendered(messages, **variables):
    """What `transformers` renders; the arguments of calls are objects to this template."""
    messages = json.loads(json.dumps(messages))
    for call in (call for message in messages for call in message.get("tool_calls", [])):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    template = chat_template_utils._compile_jinja_template((TEMPLATES / "qwen3.jinja").read_text())
    return template.render(messages=messages, add_generation_prompt=True, bos_token="", **variables)


def test_a_template_in_the_place_of_the_own_encoding(tmp_path):
    file = tmp_path / "mine.jinja"
    file.write_text("{{ bos_token }}{% for m in messages %}{{ '<｜User｜>' + m.content }}{% endfor %}<｜Assistant｜>"
                    "{{ '<think>' if thinking else '</think>' }}")
    flags = ("-p", QUESTION, "--chat-template", file)
    answer = run("-p", QUESTION)
    assert run(*flags) == answer
    assert run(*flags, "--thinking") == run("-p", QUESTION, "--thinking")
    kept = run(*flags, "--thinking", "--reasoning-parser", "none")
    assert "</think>" in kept and kept.index("</think>") > 0, "the reasoning is part of the answer"
    file.write_text("{{ raise_exception('no ' + messages[0].content) }}")
    assert f"mine.jinja: line 1: no {QUESTION}" in run(*flags, code=2)


@pytest.mark.parametrize("flags, says", [
    (["--chat-template", "none.jinja"], "--chat-template: none.jinja: no such file"),
    (["--chat-template", TEMPLATES], "expected a file, found a folder"),
    (["--chat-template", TEMPLATES / "qwen3.jinja", "--tool-call-parser", "x"], "tool-call parser: expected one of"),
    (["--chat-template", TEMPLATES / "qwen3.jinja", "--reasoning-parser", "x"], "reasoning parser: expected one of"),
    (["--tool-call-parser", "hermes"], "has a chat encoding of its own"),
    (["--reasoning-parser", "none"], "has a chat encoding of its own"),
], ids=str)
def test_wrong_flags(flags, says):
    assert says in run("-p", "x", *flags, code=2)


def test_chat_with_tools_over_a_template(qwen3):
    with Server(str(qwen3)) as server:
        chat = server.client.chat.completions
        for variables in ({}, {"thinking": True}, {"enable_thinking": False}):
            both = {"enable_thinking": value for value in variables.values()}
            settings = dict(model="model", messages=MESSAGES, tools=TOOLS, seed=1, max_tokens=20,
                            extra_body={"chat_template_kwargs": variables})
            whole = chat.create(**settings)
            assert whole.usage.prompt_tokens == len(tokens(rendered(MESSAGES, tools=TOOLS, **both)))
            chunks = list(chat.create(**settings, stream=True))
            streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert streamed == (whole.choices[0].message.content or "")
        raw = server.client.completions.create(model="model", prompt="Once upon a time", max_tokens=1)
        assert raw.usage.prompt_tokens == 1 + len(tokens("Once upon a time")), "BOS as the tokenizer says"


def test_tools_that_the_template_leaves_out(qwen3):
    settings = dict(model="model", messages=[{"role": "user", "content": "x"}], tools=TOOLS, max_tokens=1)
    with Server(str(qwen3), "--chat-template", str(TEMPLATES / "deepseek_v31.jinja")) as server:
        with pytest.raises(openai.BadRequestError, match="--chat-template FILE") as error:
            server.client.chat.completions.create(**settings)
        assert error.value.param == "tools"
    with Server(str(qwen3), "--chat-template", str(TEMPLATES / "deepseek_v3.jinja")) as server:
        assert server.client.chat.completions.create(**settings).choices
