"""Sluice's chat templates against `transformers`, byte for byte, through the helper program chat_lines.

Three parts: the constructs of the language in small templates (template_constructs.txt), random expressions, and whole
conversations over templates in the wire formats of several families (chat_templates/), rendered by apply_chat_template.

The seed is fresh, or in SLUICE_TEST_SEED."""

import copy
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
import tokenizers
import transformers
from transformers.utils import chat_template_utils

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from seed import SEED  # noqa: E402
from smollm2_file import smollm2_fields, smollm2_path  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
TEMPLATES = pathlib.Path(__file__).parent / "chat_templates"

VARIABLES = {
    "m": [{"role": "user", "content": "Hé <b>", "n": 1}, {"role": "assistant", "content": None, "n": 2.5}],
    "d": {"b": 1, "a": [1, {"x": None}], "items": 3}, "s": " Hello World ", "u": 18446744073709551615, "t": True,
    "nil": None, "e": [], "z": "straße ÀÉ",
}


class Sluice:
    """One running chat_lines."""

    def __init__(self):
        self.process = subprocess.Popen([BUILD / "chat_lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


@pytest.fixture(scope="module")
def sluice():
    program = Sluice()
    yield program
    program.close()


def reference(template, variables):
    """What the environment of `transformers` makes of a template; None if it fails."""
    try:
        return chat_template_utils._compile_jinja_template(template).render(**copy.deepcopy(variables))
    except Exception:  # whatever Python raises: the template is refused
        return None


CONSTRUCTS = (pathlib.Path(__file__).parent / "template_constructs.txt").read_text().removesuffix("\n").split("\n====\n")


@pytest.mark.parametrize("template", CONSTRUCTS, ids=range(len(CONSTRUCTS)))
def test_constructs(sluice, template):
    answer = sluice(template=template, variables=VARIABLES)
    assert answer.get("text") == reference(template, VARIABLES), answer


class Expressions:
    """Random expressions, most of which mean something."""

    ATOMS = ["1", "0", "-3", "2.5", "true", "false", "none", "'a'", "'Bé'", "''", "' x y '", "[]", "[1, 2, 3]", "['b', 'a']",
             "{'k': 1}", "(1, 'a')", "m", "d", "s", "u", "t", "nil", "e", "z", "nothing", "range(3)|list", "d.a", "m[0]"]
    FILTERS = ["length", "list", "first", "last", "trim", "upper", "lower", "title", "capitalize", "string", "int", "float",
               "abs", "round", "tojson", "join(',')", "join", "sort", "unique|list", "reverse|list", "sum", "min", "max",
               "default('d')", "default('d', true)", "replace('a', 'b')", "map('string')|list", "select|list",
               "reject('none')|list", "map(attribute='role')|list", "selectattr('role')|list", "dictsort", "items|list",
               "batch(2)|list", "slice(2)|list", "indent(2)", "tojson(indent=1)", "center(7)", "wordcount", "count"]
    TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float",
             "boolean", "true", "false", "even", "odd", "divisibleby 2", "eq 1", "ne 'a'", "in [1, 'a']", "lower", "upper",
             "gt 0", "callable", "sameas none"]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
    # Jinja takes (-3) ** x for -(3 ** x), and Python goes on with complex numbers where a root is not real.
    BASES = ["0", "1", "2.5", "true", "'a'", "nothing", "[]"]
    TAILS = ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", ".role", "['role']", ".k", ".upper()", ".split()", ".strip('x ')",
             ".items()|list", ".keys()|list", ".get('k')", ".get('q', 7)", ".startswith('a')", ".replace('a', 'é')", ".nope",
             ".find('x')", ".title()", ".count('a')"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def make(self, depth=3):
        pick = self.random.random()
        if depth == 0 or pick < 0.2:
            return self.random.choice(self.ATOMS)
        if pick < 0.45:
            return f"({self.make(depth - 1)})|{self.random.choice(self.FILTERS)}"
        if pick < 0.6:
            return f"({self.make(depth - 1)}){self.random.choice(self.TAILS)}"
        if pick < 0.7:
            return f"(({self.make(depth - 1)}) is {self.random.choice(['', 'not '])}{self.random.choice(self.TESTS)})"
        if pick < 0.75:
            return f"({self.make(depth - 1)} if {self.make(depth - 1)} else {self.make(depth - 1)})"
        if pick < 0.8:
            return f"[{self.make(depth - 1)}, {self.make(depth - 1)}]"
        if pick < 0.85:
            return self.random.choice(["-", "not "]) + f"({self.make(depth - 1)})"
        if pick < 0.87:
            return f"({self.random.choice(self.BASES)}) ** ({self.make(depth - 1)})"
        return f"({self.make(depth - 1)}) {self.random.choice(self.BINARY)} ({self.make(depth - 1)})"


def test_random_expressions(sluice):
    """The same text, or refused by both. What Python prints by address (generators, methods) we refuse."""
    expressions = Expressions(SEED)
    rendered = 0
    for _ in range(4000):
        template = "{{ " + expressions.make() + " }}"
        expected = reference(template, VARIABLES)
        if expected is not None and (" at 0x" in expected or "range(" in expected or len(expected) > 4000):
            continue
        answer = sluice(template=template, variables=VARIABLES)
        # Jinja takes a slice of a constant that has none for undefined, of anything else for an error; here it is an error.
        if expected is not None and ("subscriptable" in str(answer) or "type: 'slice'" in str(answer)):
            continue
        if expected is not None and "an integer becomes too large" in str(answer):  # Python's have no limit
            continue
        assert answer.get("text") == expected, (template, answer, expected)
        rendered += expected is not None
    assert rendered > 1000


def test_strftime_now(sluice):
    template = "{{ strftime_now('%Y-%m-%d %B %A %j') }}"
    now = datetime.datetime.now()
    answer = sluice(template=template, variables={}, now=int(now.timestamp()))
    assert answer["text"] == now.strftime("%Y-%m-%d %B %A %j")


# Conversations.

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather\nof a city, in °C.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Its <name> & \"country\""},
            "days": {"type": "array", "items": {"type": "integer"}},
            "unit": {"type": ["string", "null"], "enum": ["C", "F"]}}}}},
    {"type": "function", "function": {
        "name": "búsqueda", "description": "", "parameters": {"type": "object", "properties": {
            "filters": {"type": "object", "properties": {"from": {"type": "number"}, "all": {"type": "boolean"}}},
            "limit": {"type": "integer", "maximum": 18446744073709551615, "default": 1.0}}}, "strict": True}},
]
WORDS = ["Hello", "naïve", "日本語", "😀", "<b>&amp;", "\"quoted\"", "it's", "{{ x }}", "{% if %}", "line\nbreak", "\ttab",
         "trailing  ", "  leading", "</think>", "1.5", "<|im_end|>", "\\n", "𝒳"]


class Conversations:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 6)))

    def arguments(self):
        return self.random.choice([{}, {"city": self.text()}, {"days": [1, 2.5, None], "unit": "C"},
                                   {"filters": {"from": 1e-7, "all": True}, "limit": 18446744073709551615}])

    def make(self, kind, tools, system):
        messages = []
        if system and self.random.random() < 0.6:
            messages.append({"role": "system", "content": self.text()})
        for _ in range(self.random.randint(0, 2)):
            messages.append({"role": "user", "content": self.text()})
            if tools and self.random.random() < 0.6:
                messages += self.calls(kind)
            answer = {"role": "assistant", "content": self.text()}
            if kind["reasoning"] and self.random.random() < 0.5:
                answer["reasoning_content"] = self.text()
            elif kind["reasoning"] and self.random.random() < 0.5:
                answer["content"] = f"<think>\n{self.text()}\n</think>\n\n{answer['content']}"
            messages.append(answer)
        messages.append({"role": "user", "content": self.text()})
        if tools and self.random.random() < 0.5:
            messages += self.calls(kind)
        return messages

    def calls(self, kind):
        count = self.random.randint(1, kind["calls"])
        calls = []
        for i in range(count):
            arguments = self.arguments()
            if kind["arguments"] == "text":
                arguments = json.dumps(arguments, ensure_ascii=False)
            calls.append({"id": f"call_{i}", "type": "function",
                          "function": {"name": self.random.choice(TOOLS)["function"]["name"], "arguments": arguments}})
        message = {"role": "assistant", "content": self.random.choice(kind["content"])(self), "tool_calls": calls}
        if kind["reasoning"] and self.random.random() < 0.5:
            message["reasoning_content"] = self.text()
        results = [{"role": "tool", "tool_call_id": f"call_{i}", "name": "x", "content": self.text()} for i in range(count)]
        return [message] + results


def some_text(conversations):
    return conversations.text()


def nothing(_):
    return None


def kind(tools=True, calls=3, arguments="object", reasoning=False, content=(some_text, nothing), variables=({},)):
    return dict(tools=tools, calls=calls, arguments=arguments, reasoning=reasoning, content=content, variables=variables)


# The parts of a conversation that each template can write. DeepSeek V3.1's own has no place for tools.
KINDS = {
    "chatml": kind(tools=False),
    "llama3": kind(calls=1, variables=({"date_string": "1 May 2025"},
                                       {"date_string": "1 May 2025", "tools_in_user_message": False})),
    "qwen25": kind(),
    "qwen3": kind(reasoning=True, variables=({}, {"enable_thinking": True}, {"enable_thinking": False})),
    "deepseek_v2": kind(tools=False),
    "deepseek_v25": kind(tools=False),
    "deepseek_v3": kind(arguments="text"),
    "deepseek_r1": kind(arguments="text"),
    "deepseek_v31": kind(arguments="text", content=(some_text,), variables=({}, {"thinking": True}, {"thinking": False})),
    "hermes": kind(),
}
SMOLLM2 = "SmolLM2's own, in its GGUF file"
KINDS[SMOLLM2] = kind(tools=False)
CONVERSATIONS_EACH = 30  # 330 in all


def make_model(folder, template):
    """A model folder with a template, and the same tokenizer in `transformers`."""
    tokens = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
    config = {"bos_token": {"__type": "AddedToken", "content": tokens["bos_token"], "lstrip": False},
              "eos_token": tokens["eos_token"], "unk_token": None, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=template, **tokens)


def both_thinking(variables):
    """`thinking` is also `enable_thinking`, and the reverse."""
    values = [variables[name] for name in ("thinking", "enable_thinking") if name in variables]
    return {**variables, "thinking": values[0], "enable_thinking": values[0]} if values else variables


@pytest.mark.parametrize("name", KINDS)
def test_conversations(sluice, tmp_path, name):
    is_file = name != SMOLLM2
    template = (TEMPLATES / f"{name}.jinja").read_text() if is_file else smollm2_fields("chat_template")[0]
    tokenizer = make_model(tmp_path, template)
    folder = tmp_path if is_file else smollm2_path()
    shape = KINDS[name]
    conversations = Conversations(f"{SEED} {name}")
    with_tools = 0
    for i in range(CONVERSATIONS_EACH):
        tools = TOOLS[:i % 3] if shape["tools"] and name != "deepseek_v31" else []
        messages = conversations.make(shape, tools=shape["tools"] and i % 3 > 0, system=True)
        variables = shape["variables"][i % len(shape["variables"])]
        prompt = i % 4 != 3
        expected = tokenizer.apply_chat_template(copy.deepcopy(messages), tools=copy.deepcopy(tools) or None, tokenize=False,
                                                 add_generation_prompt=prompt, **both_thinking(variables))
        request = dict(folder=str(folder), model_type="llama", messages=messages, add_generation_prompt=prompt,
                       variables=both_thinking(variables))
        if tools:
            request["tools"] = tools
            with_tools += 1
        answer = sluice(**request)
        assert answer.get("text") == expected, (i, messages, answer)
    assert with_tools > 10 or not shape["tools"] or name == "deepseek_v31"


def test_a_template_that_leaves_tools_out_is_an_error(sluice, tmp_path):
    make_model(tmp_path, (TEMPLATES / "deepseek_v31.jinja").read_text())
    request = dict(folder=str(tmp_path), model_type="deepseek_v3", messages=[{"role": "user", "content": "x"}],
                   add_generation_prompt=True, tools=TOOLS)
    assert "leaves them out" in sluice(**request)["error"]
    with_file = sluice(**request, template_file=str(TEMPLATES / "deepseek_v3.jinja"))
    assert "get_weather" in with_file["text"]


def test_tool_use_is_taken_with_tools_and_a_file_goes_before_the_config(sluice, tmp_path):
    two = [{"name": "default", "template": "plain {{ messages[0].content }}"},
           {"name": "tool_use", "template": "tools {{ tools|length }}"}]
    tokenizer = make_model(tmp_path, "")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": two}))
    tokenizer.chat_template = {t["name"]: t["template"] for t in two}
    request = dict(folder=str(tmp_path), model_type="llama", messages=[{"role": "user", "content": "x"}],
                   add_generation_prompt=True)
    for tools in (None, TOOLS):
        expected = tokenizer.apply_chat_template(request["messages"], tools=tools, tokenize=False)
        assert sluice(**request, **({"tools": tools} if tools else {}))["text"] == expected
    (tmp_path / "chat_template.jinja").write_text("from the file {{ tools }}\n")
    assert sluice(**request)["text"] == "from the file None"
