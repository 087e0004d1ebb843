"""A program of PyPI's `openai`, which clients_python_test.ts runs: it prints what it has seen as JSON.

Its argument is the address of a server.
"""

import json
import sys

import openai

client = openai.OpenAI(api_key="sk-any", base_url=sys.argv[1], max_retries=0)
messages = [{"role": "user", "content": "Who is it?"}]
chat = {"model": "chat", "messages": messages, "max_tokens": 12, "seed": 1}

whole = client.chat.completions.create(**chat)
text, usage = "", None
stream = client.chat.completions.create(**chat, stream=True, stream_options={"include_usage": True})
for chunk in stream:
    if chunk.choices and chunk.choices[0].delta.content:
        text += chunk.choices[0].delta.content
    usage = chunk.usage or usage

parameters = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}},
    "required": ["city"],
    "additionalProperties": False,
}
tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
long = {**chat, "max_tokens": 120}
called = client.chat.completions.create(**long, tools=[tool], tool_choice="required")
place = {"type": "json_schema", "json_schema": {"name": "place", "schema": parameters}}
shaped = client.chat.completions.create(**long, response_format=place)

vectors = client.embeddings.create(model="embeddings", input=["w1 w2", "w3"])
completion = client.completions.create(model="chat", prompt="Once", max_tokens=8)

# A stream that is closed before its end.
endless = {**chat, "max_tokens": 4000, "stream": True, "logit_bias": {"1": -100}}
with client.chat.completions.create(**endless) as unread:
    next(iter(unread))

errors = []
for changes in [{"model": "none"}, {"temperature": 9}, {"messages": []}]:
    try:
        client.chat.completions.create(**{**chat, **changes})
    except openai.APIStatusError as error:
        errors.append([type(error).__name__, error.status_code])

call = called.choices[0].message.tool_calls[0].function
print(
    json.dumps(
        {
            "models": sorted(model.id for model in client.models.list()),
            "whole": whole.choices[0].message.content,
            "wholeUsage": whole.usage.total_tokens,
            "text": text,
            "usage": usage.total_tokens,
            "call": [call.name, json.loads(call.arguments)],
            "object": json.loads(shaped.choices[0].message.content),
            "vectors": [one.embedding for one in vectors.data],
            "completion": completion.choices[0].text,
            "errors": errors,
        }
    )
)
