"""The clients that people have, each on whole, streamed and failing calls; all of them on one server."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing here asks the network

import anthropic
import instructor
import litellm
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from server_calls import QUESTION, WEATHER, model, server  # noqa: F401
from server_process import PATIENCE

PARIS = "What is the weather in Paris?"
PARAMETERS = WEATHER["function"]["parameters"]
ITEM_TOOL = {"type": "function", "name": "get_weather", "description": "Get the current weather for a city.",
             "parameters": PARAMETERS, "strict": False}
BLOCK_TOOL = {"name": "get_weather", "description": "Get the current weather for a city.", "input_schema": PARAMETERS}


TRIP = {"format": {"type": "json_schema", "name": "trip", "schema": {"type": "object"}}}


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int


class Weather(BaseModel):
    """Get the current weather for a city."""

    city: str


@pytest.fixture(scope="module")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=PATIENCE)


# --- openai: Responses ------------------------------------------------------------------------------------------------


def respond(server, model, **more):
    return server.client.responses.create(**{"model": model, "input": "What is 17 + 25?", "temperature": 0, **more})


def test_responses(server, model):
    answer = respond(server, model)
    assert "42" in answer.output_text and answer.status == "completed" and answer.error is None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    chat = server.client.chat.completions.create(model=model, messages=QUESTION, temperature=0)
    assert answer.output_text == chat.choices[0].message.content
    assert answer.weights_version == chat.weights_version
    cut = respond(server, model, max_output_tokens=3)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"


def test_responses_stream(server, model):
    events = list(respond(server, model, stream=True, reasoning={"effort": "high"}))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == last.response.output_text
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == last.response.output and [item.type for item in done] == ["reasoning", "message"]
    with server.client.responses.stream(model=model, input="What is 17 + 25?", temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(deltas) == stream.get_final_response().output_text


def test_responses_parse(server, model):
    answer = server.client.responses.parse(model=model, input="A trip.", temperature=0, text_format=Trip,
                                           max_output_tokens=200)
    if answer.status == "completed":  # a small model may write a long city
        assert isinstance(answer.output_parsed, Trip)
    else:
        assert answer.output_text.lstrip().startswith("{")


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_responses_tools_and_what_comes_back(server, model, thinks, stream):
    ask = {"tools": [ITEM_TOOL], "include": ["reasoning.encrypted_content"], "store": False,
           "reasoning": {"effort": "high" if thinks else "none"}}
    items = [{"role": "user", "content": PARIS}]
    answer = respond(server, model, input=items, stream=stream, **ask)
    if stream:
        answer = list(answer)[-1].response
    (call,) = [item for item in answer.output if item.type == "function_call"]
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}
    assert [item.type for item in answer.output].count("reasoning") == thinks
    items += [item.model_dump(exclude_none=True) for item in answer.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "Sunny, 21 degrees."})
    again = respond(server, model, input=items, **ask)
    assert again.output_text and again.status == "completed"
    # Some agents keep only the sealed text of reasoning.
    kept = [{key: value for key, value in item.items() if key != "content" or item.get("type") != "reasoning"}
            for item in items]
    same = respond(server, model, input=kept, **ask)
    assert same.output_text == again.output_text and same.usage.input_tokens == again.usage.input_tokens


def test_responses_forced_tools(server, model):
    for choice in ("required", {"type": "function", "name": "get_weather"},
                   {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}):
        answer = respond(server, model, tools=[{**ITEM_TOOL, "strict": True}], tool_choice=choice, input="Hello!",
                         max_output_tokens=200, text=TRIP)  # the text's format, as instructor sends it; a call has none
        (call,) = answer.output[-1:]
        assert call.type == "function_call" and list(json.loads(call.arguments)) == ["city"]
    # On auto the answer calls, or it is JSON of the schema.
    answer = respond(server, model, tools=[ITEM_TOOL], text=TRIP, input="Hello!", max_output_tokens=300)
    (item,) = [item for item in answer.output if item.type != "reasoning"]
    assert item.type == "function_call" or answer.status == "incomplete" or isinstance(json.loads(answer.output_text), dict)


def test_responses_fail(server, model):
    with pytest.raises(openai.BadRequestError) as caught:
        respond(server, model, previous_response_id="resp_1")
    assert caught.value.param == "previous_response_id"
    with pytest.raises(openai.BadRequestError) as caught:
        respond(server, model, temperature=9, stream=True)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        respond(server, "other")


def test_chat_parse(server, model):
    answer = server.client.chat.completions.parse(model=model, messages=[{"role": "user", "content": "A trip."}],
                                                  temperature=0, response_format=Trip, max_tokens=400)
    assert isinstance(answer.choices[0].message.parsed, Trip)


# --- anthropic --------------------------------------------------------------------------------------------------------


COLD = {"temperature": 0}  # the client has no name for it any more


def say(claude, model, **more):
    return claude.messages.create(**{"model": model, "max_tokens": 200, "extra_body": COLD, "messages": QUESTION, **more})


def test_messages(server, model, claude):
    answer = say(claude, model)
    assert "42" in answer.content[0].text and answer.stop_reason == "end_turn" and answer.role == "assistant"
    assert answer.weights_version == respond(server, model).weights_version
    system = [{"type": "text", "text": "Be brief. " * 200, "cache_control": {"type": "ephemeral"}}]
    first, second = say(claude, model, system=system), say(claude, model, system=system)
    assert second.content == first.content and second.usage.cache_read_input_tokens > 0
    count = claude.messages.count_tokens(model=model, messages=QUESTION, system=system).input_tokens
    for answer in (first, second):
        assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == count
    stopped = say(claude, model, stop_sequences=["="])
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "="
    assert say(claude, model, max_tokens=2).stop_reason == "max_tokens"
    assert say(claude, model, max_tokens=10**6).stop_reason == "end_turn"


def test_messages_stream_helper_and_thinking(server, model, claude):
    thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    whole = say(claude, model, max_tokens=2048, **thinks)
    assert [block.type for block in whole.content] == ["thinking", "text"]
    with claude.messages.stream(model=model, max_tokens=2048, extra_body=COLD, messages=QUESTION, **thinks) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]
    assert final.stop_reason == whole.stop_reason
    assert text == whole.content[1].text and final.usage.output_tokens == whole.usage.output_tokens
    talk = QUESTION + [{"role": "assistant", "content": [block.model_dump() for block in whole.content]},
                       {"role": "user", "content": "And 1 more?"}]
    assert say(claude, model, max_tokens=2048, messages=talk, **thinks).content
    talk[1]["content"][0]["thinking"] += " Or not."
    with pytest.raises(anthropic.BadRequestError, match="signature"):
        say(claude, model, max_tokens=2048, messages=talk, **thinks)


@pytest.mark.parametrize("stream", [False, True])
def test_messages_tools_and_what_comes_back(server, model, claude, stream):
    ask = {"model": model, "max_tokens": 300, "extra_body": COLD, "tools": [BLOCK_TOOL]}
    talk = [{"role": "user", "content": PARIS}]
    if stream:
        with claude.messages.stream(messages=talk, **ask) as events:
            answer = events.get_final_message()
    else:
        answer = claude.messages.create(messages=talk, **ask)
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    assert answer.stop_reason == "tool_use" and call.name == "get_weather" and call.input == {"city": "Paris"}
    talk.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
    talk.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id,
                                              "content": [{"type": "text", "text": "Sunny, 21 degrees."}]}]})
    assert claude.messages.create(messages=talk, **ask).content[0].text


def test_messages_forced_tools(server, model, claude):
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}):
        answer = say(claude, model, tools=[BLOCK_TOOL], tool_choice=choice,
                     messages=[{"role": "user", "content": "Hello!"}])
        assert answer.stop_reason in ("tool_use", "max_tokens")
        calls = [block for block in answer.content if block.type == "tool_use"]
        assert all(call.name == "get_weather" for call in calls) and (calls or answer.stop_reason == "max_tokens")


def test_messages_fail(server, model, claude):
    with pytest.raises(anthropic.BadRequestError) as caught:
        say(claude, model, extra_body={"temperature": 9})
    assert caught.value.body["type"] == "error" and "temperature" in caught.value.body["error"]["message"]
    with pytest.raises(anthropic.NotFoundError):
        say(claude, "other")
    with pytest.raises(anthropic.BadRequestError, match="role"):
        with claude.messages.stream(model=model, max_tokens=3, messages=[{"role": "robot", "content": "x"}]) as stream:
            stream.until_done()


# --- frameworks -------------------------------------------------------------------------------------------------------


def test_litellm(server, model):
    ask = {"model": f"openai/{model}", "api_base": server.url + "/v1", "api_key": "none", "messages": QUESTION,
           "temperature": 0}
    text = litellm.completion(**ask).choices[0].message.content
    assert "42" in text
    assert "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(stream=True, **ask)) == text
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(**{**ask, "extra_body": {"min_p": 5}})
    own = litellm.completion(**{**ask, "model": f"anthropic/{model}", "api_base": server.url, "max_tokens": 100})
    assert own.choices[0].message.content == text


def langchain(server, model, **more):
    return ChatOpenAI(model=model, base_url=server.url + "/v1", api_key="none", temperature=0, max_retries=0, **more)


def test_langchain(server, model):
    chat = langchain(server, model)
    text = chat.invoke("What is 17 + 25?").content
    assert "42" in text and "".join(chunk.text for chunk in chat.stream("What is 17 + 25?")) == text
    (call,) = chat.bind_tools([Weather]).invoke("What is the weather in Paris?").tool_calls
    assert call["args"]["city"] == "Paris"
    trip = langchain(server, model, max_tokens=400).with_structured_output(Trip, method="json_schema").invoke("A trip.")
    assert isinstance(trip, Trip)
    weather = langchain(server, model, max_tokens=400).with_structured_output(Weather, method="function_calling")
    assert weather.invoke("What is the weather in Paris?") == Weather(city="Paris")
    with pytest.raises(openai.BadRequestError):
        langchain(server, model, top_p=5).invoke("x")
    items = langchain(server, model, use_responses_api=True).invoke("What is 17 + 25?")
    assert items.text == text


@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.JSON])
def test_instructor(server, model, claude, mode):
    client = instructor.from_openai(server.client, mode=mode)
    ask = {"model": model, "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
           "temperature": 0, "max_tokens": 400, "max_retries": 0}
    if mode != instructor.Mode.JSON:  # in that mode the small model would have to follow the prompt
        assert isinstance(client.chat.completions.create(response_model=Weather, **ask), Weather)
    if mode == instructor.Mode.JSON_SCHEMA:  # its streams of tools are not strict
        *_, last = client.chat.completions.create_partial(response_model=Weather, **ask)
        assert isinstance(last.city, str)
    with pytest.raises(Exception, match="temperature"):
        client.chat.completions.create(response_model=Weather, **{**ask, "temperature": 9})
    if mode == instructor.Mode.TOOLS:
        blocks = instructor.from_anthropic(claude, mode=instructor.Mode.ANTHROPIC_TOOLS).messages
        del ask["temperature"]
        assert isinstance(blocks.create(response_model=Weather, extra_body=COLD, **ask), Weather)


# --- sessions of coding agents ----------------------------------------------------------------------------------------

TOOLS = [(f"{verb}_{thing}", f"{verb.capitalize()} {thing.replace('_', ' ')} of the project; paths are relative.",
          {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"},
                                            "limit": {"type": "integer"}}, "required": ["path"]})
         for verb in ("read", "write", "list", "search", "check") for thing in
         ("file", "folder", "branch", "test", "log", "commit", "issue")][:39]
TOOLS += [(f"run_{thing}", f"Run the {thing}.", {"type": "object", "properties": {"path": {"type": "string"}}})
          for thing in ("tests", "linter", "build", "server")]
TOOLS.append(("get_weather", "Get the current weather for a city.", PARAMETERS))
CITIES = ("Paris", "Lisbon", "Rome", "Oslo", "Vienna")
TURNS = 30


def question(turn):
    if turn % 3 == 2:
        return f"What is {turn + 11} + {turn + 20}?"
    return f"What is the weather in {CITIES[turn % len(CITIES)]}?"


def check_turns(turns):
    """Of (prompt tokens, cached ones) and texts, calls of each turn."""
    assert len(TOOLS) == 40 and len(turns) == TURNS
    for _, _, text, calls in turns:
        assert "DSML" not in text
        for name, arguments in calls:
            assert name in [tool[0] for tool in TOOLS] and isinstance(arguments, dict)
        assert text or calls
    assert any(calls for *_, calls in turns) and any(text for _, _, text, _ in turns)
    share = sum(turn[1] for turn in turns) / sum(turn[0] for turn in turns)
    assert share >= 0.9, [turn[:2] for turn in turns]


def test_a_session_over_messages(server, model, claude):
    tools = [{"name": name, "description": about, "input_schema": schema} for name, about, schema in TOOLS]
    talk, turns, asked = [], [], 0
    while len(turns) < TURNS:
        if not talk or talk[-1]["role"] == "assistant":
            talk.append({"role": "user", "content": [{"type": "text", "text": question(asked),
                                                      "cache_control": {"type": "ephemeral"}}]})
            asked += 1
        with claude.messages.stream(model=model, max_tokens=200, extra_body=COLD, messages=talk, tools=tools,
                                    system="You are a coding agent.") as stream:
            answer = stream.get_final_message()
        calls = [block for block in answer.content if block.type == "tool_use"]
        usage = answer.usage
        turns.append((usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens,
                      "".join(block.text for block in answer.content if block.type == "text"),
                      [(call.name, call.input) for call in calls]))
        talk.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
        if calls:
            talk.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny, 21 degrees."} for call in calls]})
    check_turns(turns)


def test_a_session_over_responses(server, model):
    tools = [{"type": "function", "name": name, "description": about, "parameters": schema, "strict": False}
             for name, about, schema in TOOLS]
    items, turns, asked, waits = [], [], 0, False
    while len(turns) < TURNS:
        if not waits:
            items.append({"role": "user", "content": [{"type": "input_text", "text": question(asked)}]})
            asked += 1
        events = list(respond(server, model, input=items, tools=tools, instructions="You are a coding agent.",
                              store=False, stream=True, max_output_tokens=200, prompt_cache_key="session",
                              include=["reasoning.encrypted_content"]))
        answer = events[-1].response
        calls = [item for item in answer.output if item.type == "function_call"]
        turns.append((answer.usage.input_tokens, answer.usage.input_tokens_details.cached_tokens, answer.output_text,
                      [(call.name, json.loads(call.arguments)) for call in calls]))
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny, 21 degrees."}
                  for call in calls]
        waits = bool(calls)
    check_turns(turns)
