"""The frameworks that people call models with, in the versions that requirements.txt here pins or in the newest ones: chats,
streams, tools, objects. A server of the embedded model; `SLUICE_BUILD_DIR` says where the program is."""

import asyncio
import os
import pathlib
import sys
from typing import Literal

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_AGENTS_DISABLE_TRACING="1", OPENAI_API_KEY="none")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import anthropic  # noqa: E402
import instructor  # noqa: E402
import litellm  # noqa: E402
import pytest  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from server_calls import QUESTION, WEATHER, model, server  # noqa: E402, F401

PARIS = "What is the weather in Paris?"


class Mood(BaseModel):
    """How it is."""

    mood: Literal["good", "bad"]
    stars: Literal[1, 2, 3]


class Weather(BaseModel):
    """Get the current weather for a city."""

    city: Literal["Paris", "Rome"]


def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """Get the current weather for a city."""
    return f"Sunny in {city}, 21 degrees."


def test_openai(server, model):
    chats, ask = server.client.chat.completions, {"model": model, "messages": QUESTION, "temperature": 0}
    whole = chats.create(logprobs=True, top_logprobs=2, **ask).choices[0]
    assert "42" in whole.message.content and len(whole.logprobs.content[0].top_logprobs) == 2
    chunks = list(chats.create(stream=True, stream_options={"include_usage": True}, **ask))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.message.content
    assert chunks[-1].usage.completion_tokens > 0
    assert isinstance(chats.parse(response_format=Mood, **ask).choices[0].message.parsed, Mood)
    (call,) = chats.create(tools=[WEATHER], **ask | {"messages": [{"role": "user", "content": PARIS}]}).choices[0].message.tool_calls
    assert call.function.arguments == '{"city": "Paris"}'
    items = server.client.responses
    assert items.create(model=model, input="What is 17 + 25?", temperature=0).output_text == whole.message.content
    assert isinstance(items.parse(model=model, input="x", text_format=Mood).output_parsed, Mood)


def test_anthropic(server, model):
    claude = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
    ask = {"model": model, "max_tokens": 200, "extra_body": {"temperature": 0}}
    whole = claude.messages.create(messages=QUESTION, **ask)
    assert "42" in whole.content[0].text and whole.usage.output_tokens > 0
    with claude.messages.stream(messages=QUESTION, **ask) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
    tool = {"name": "get_weather", "description": WEATHER["function"]["description"],
            "input_schema": WEATHER["function"]["parameters"]}
    called = claude.messages.create(messages=[{"role": "user", "content": PARIS}], tools=[tool], **ask)
    assert [block.input for block in called.content if block.type == "tool_use"] == [{"city": "Paris"}]
    assert isinstance(claude.messages.parse(messages=QUESTION, output_format=Mood, **ask).parsed_output, Mood)


def test_litellm(server, model):
    ask = {"model": f"openai/{model}", "api_base": server.url + "/v1", "api_key": "none", "messages": QUESTION, "temperature": 0}
    text = litellm.completion(**ask).choices[0].message.content
    chunks = list(litellm.completion(stream=True, stream_options={"include_usage": True}, **ask))
    assert "42" in text and "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.completion_tokens > 0
    assert Mood.model_validate_json(litellm.completion(response_format=Mood, **ask).choices[0].message.content)
    called = litellm.completion(tools=[WEATHER], **ask | {"messages": [{"role": "user", "content": PARIS}]})
    assert called.choices[0].message.tool_calls[0].function.name == "get_weather"
    own = ask | {"model": f"anthropic/{model}", "api_base": server.url, "max_tokens": 100}
    assert litellm.completion(**own).choices[0].message.content == text
    del ask["messages"]
    assert "42" in litellm.responses(input="What is 17 + 25?", **ask).output[0].content[0].text


@pytest.mark.parametrize("responses", [False, True])
def test_langchain(server, model, responses):
    chat = ChatOpenAI(model=model, base_url=server.url + "/v1", api_key="none", temperature=0, max_retries=0,
                      stream_usage=True, use_responses_api=responses)
    answer = chat.invoke("What is 17 + 25?")
    chunks = list(chat.stream("What is 17 + 25?"))
    assert "42" in answer.text and "".join(chunk.text for chunk in chunks) == answer.text
    assert answer.usage_metadata["output_tokens"] > 0 and any(chunk.usage_metadata for chunk in chunks)
    (call,) = chat.bind_tools([Weather], strict=True).invoke(PARIS).tool_calls
    assert call["args"] == {"city": "Paris"}
    for method in ("json_schema", "function_calling"):
        assert isinstance(chat.with_structured_output(Mood, method=method).invoke("Good, three stars."), Mood)
    if not responses:
        assert chat.bind(logprobs=True).invoke("Hello").response_metadata["logprobs"]["content"]


def test_llama_index(server, model):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    chat = OpenAILike(model=model, api_base=server.url + "/v1", api_key="none", temperature=0, is_chat_model=True,
                      is_function_calling_model=True, context_window=4096, max_retries=0)
    message = ChatMessage(role="user", content="What is 17 + 25?")
    text = chat.chat([message]).message.content
    assert "42" in text and "".join(chunk.delta or "" for chunk in chat.stream_chat([message])) == text
    assert chat.complete("What is 17 + 25?").text == text
    answer = chat.chat_with_tools([FunctionTool.from_defaults(get_weather)], user_msg=PARIS, tool_required=True)
    (call, *_) = chat.get_tool_calls_from_response(answer)
    assert call.tool_name == "get_weather" and call.tool_kwargs == {"city": "Paris"}
    assert isinstance(chat.as_structured_llm(Mood).complete("Good, three stars.").raw, Mood)


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS"])
def test_instructor(server, model, mode):
    client = instructor.from_openai(server.client, mode=instructor.Mode[mode])
    ask = {"model": model, "temperature": 0, "max_retries": 0, "messages": [{"role": "user", "content": "Good, three stars."}]}
    assert isinstance(client.create(response_model=Mood, **ask), Mood)
    if mode == "JSON_SCHEMA":
        *_, last = client.create_partial(response_model=Mood, **ask)
        assert last.mood in ("good", "bad")


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_pydantic_ai(server, model, api):
    from pydantic_ai import Agent, ModelSettings, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    chat = kind(model, provider=OpenAIProvider(base_url=server.url + "/v1", api_key="none"))
    settings = ModelSettings(temperature=0, max_tokens=300)
    plain = Agent(chat, model_settings=settings).run_sync("What is 17 + 25?")
    assert "42" in plain.output and (plain.usage() if callable(plain.usage) else plain.usage).output_tokens > 0
    for output in (ToolOutput(Mood), NativeOutput(Mood)):
        assert isinstance(Agent(chat, output_type=output, model_settings=settings).run_sync("Good.").output, Mood)
    agent = Agent(chat, tools=[get_weather], model_settings=settings)
    parts = [part for message in agent.run_sync(PARIS).all_messages() for part in message.parts]
    assert any(part.part_kind == "tool-return" and "Sunny in Paris" in str(part.content) for part in parts)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_openai_agents(server, model, api):
    import openai
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool

    async def run():
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        kind = OpenAIChatCompletionsModel if api == "chat" else OpenAIResponsesModel
        more = {"model": kind(model, client), "model_settings": ModelSettings(temperature=0)}
        plain = await Runner.run(Agent(name="A", **more), "What is 17 + 25?")
        assert "42" in plain.final_output
        called = await Runner.run(Agent(name="A", tools=[function_tool(get_weather)], **more), PARIS)
        assert any("Sunny in Paris" in str(getattr(item, "output", "")) for item in called.new_items)
        typed = await Runner.run(Agent(name="A", output_type=Mood, **more), "Good, three stars.")
        assert isinstance(typed.final_output, Mood)
        streamed = Runner.run_streamed(Agent(name="A", **more), "What is 17 + 25?")
        assert [event async for event in streamed.stream_events()] and streamed.final_output == plain.final_output

    asyncio.run(run())


def test_dspy(server, model):
    import dspy

    chat = dspy.LM(f"openai/{model}", api_base=server.url + "/v1", api_key="none", temperature=0, max_tokens=300, cache=False,
                   num_retries=0)
    assert "42" in chat("What is 17 + 25?")[0]

    # The request that its adapters send where the model is known to take schemas; without one the embedded model knows
    # no form of them.
    assert Mood.model_validate_json(chat("Good, three stars.", response_format=Mood)[0])
