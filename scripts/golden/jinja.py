"""Writes tests/golden/models/jinja.json: what Python's Jinja makes of small templates and of chats, as
transformers sets it up.

    .venv/bin/pip install jinja2
    .venv/bin/python scripts/golden/jinja.py [--templates models/vocabularies/templates]

"snippets" are small templates, with their texts, or null for an error. "real" has, for each template of
a folder of *.jinja, a hash of each text: with a folder it is made anew; without, what is there stays.
"""

import argparse
import datetime
import json
from pathlib import Path

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

PATH = Path(__file__).parents[2] / "tests/golden/models/jinja.json"
NOW = datetime.datetime(2025, 3, 7, 15, 4, 5)

VARIABLES = {
    "s": "Grüße 🙂 'a' \"b\"\n",
    "n": 7,
    "f": 2.5,
    "t": True,
    "no": False,
    "none_value": None,
    "words": ["b", "A", "c", "a"],
    "numbers": [3, 1, 2],
    "mixed": [1, "a", None, True, 2.5, [1], {"k": "it's"}],
    "d": {"b": 1, "a": [1, None], "items": "own", "C": {"x": "y"}},
    "people": [{"name": "Ann", "age": 3}, {"name": "bob", "age": 1}, {"name": "Cy", "age": 2}],
    "empty": [],
}

SNIPPETS = """
{{ none_value }}|{{ t }}|{{ no }}|{{ n }}|{{ f }}|{{ missing }}|{{ 1.0 }}|{{ 2 }}
{{ mixed }}|{{ d }}|{{ words }}|{{ s }}|{{ [s] }}|{{ (1, 'a') }}|{{ {'a': none} }}
{{ 'a' ~ none_value ~ t ~ mixed ~ 1.5 }}
{{ mixed | join(', ') }}|{{ [true, none] | join }}|{{ words | join }}
{{ '%s and %s' % ('a', none) }}|{{ '%s' % x }}|{{ '%d%%' % 3 }}|{{ '%5.2f|%-4s|%04d' % (1.005, 'x', 7) }}
{{ '%s' % [1, 'a'] }}|{{ '%r' % 'a' }}|{{ '%(a)s' % {'a': 1} }}|{{ '%s' % 'x' }}
{{ '%s %s' % 'x' }}
{{ '%s' % ('a', 'b') }}
{{ '%x' % 255 }}|{{ '%+d' % 5 }}|{{ '%5s' % 'ab' }}
{% for i in [1, 2, 3] %}{% if i == 1 %}a{% continue %}{% endif %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% endfor %}!
{% for i in [1] %}x{% break %}{% else %}none{% endfor %}|{% for i in [] %}x{% else %}none{% endfor %}
{% for i in numbers %}{{ i }}{% continue %}z{% endfor %}
{% for i in numbers %}{% continue %}{% else %}none{% endfor %}|{% for i in numbers %}{% if i == 2 %}{% continue %}{% endif %}{% else %}none{% endfor %}
{{ none_value | select('odd') | list }}|{{ none_value | map('upper') | list }}|{{ 0 | selectattr('x') | list }}
{{ none_value | sort }}
{{ {1: 'a', 2: none} }}|{{ {1: 'a'}[1] }}|{{ {1: 'a'} | tojson }}|{{ 1 in {1: 2} }}|{{ {1: 2}[true] }}|{{ {1: 2}.get(1.0) }}|{% for k, v in {3: 4}.items() %}{{ k + v }}{% endfor %}
{{ "<'" | safe + '<"&>' }}|{{ '<' + '>' | safe }}|{{ ('<' | safe) ~ '<' }}
{{ '<' | safe | tojson }}|{{ ('a' | safe) == 'a' }}|{{ 'a' | safe is string }}|{{ 'a' if '' | safe }}
{{ '<' | safe | length }}
{{ ['a' | safe] }}
{{ 'a' | safe | upper }}
{{ 'a' == 'a' in ['a'] }}
{{ (1 == 1) == (2 == 2) }}|{{ ('a' in 'ab') != (1 in [2]) }}|{{ not 1 == 2 }}|{{ 1 if 'a' in 'ab' else 2 }}
{% for i in range(3) %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }};{% endfor %}{{ d.keys() }}{{ d.values() }}{{ d.items() }}
{% for x in numbers if x > 1 %}{{ loop.index }}{{ x }}{% endfor %}
{{ d['items'] }}|{{ d.b }}|{{ d.get('z') }}|{{ d.get('z', 4) }}|{{ d.C.x }}|{{ d['q'] }}|{{ d.q }}
{{ d.items is defined }}|{{ d.q is defined }}|{{ d.items is callable }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ none_value.x }}|{{ none_value['x'] }}|{{ s.nothing }}
{{ n + missing }}
{{ 'a' + missing }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + [2] }}|{{ (1, 2) + (3,4) }}|{{ 'ab' * 2 }}|{{ 2 * [1] }}|{{ [1] + (2, 3) }}
{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 / 2 }}|{{ 6 / 2 }}|{{ 2 ** 3 }}|{{ 2 ** -1 }}|{{ 2.0 * 3 }}|{{ true + 1 }}
{{ 1 / 0 }}
{{ 1 == 1.0 }}|{{ true == 1 }}|{{ '1' == 1 }}|{{ [] == [] }}|{{ {'a': [1]} == {'a': [1.0]} }}|{{ (1, 2) == [1, 2] }}|{{ none == false }}|{{ missing == none }}
{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 1 < 1.5 }}|{{ 'Z' < 'a' }}
{{ 1 < 'a' }}
{{ 'a' in s }}|{{ 'x' in words }}|{{ 'b' in d }}|{{ 3 not in numbers }}|{{ none in mixed }}|{{ 'a' in missing }}|{{ 1.0 in numbers }}
{{ 1 in 'abc' }}
{{ s | length }}|{{ d | length }}|{{ words | length }}|{{ missing | length }}|{{ '🙂🙂' | length }}
{{ 5 | length }}
{{ s[0] }}{{ s[6] }}{{ s[-2] }}|{{ s[:3] }}|{{ s[6:8] }}|{{ words[::-1] }}|{{ words[1:] }}|{{ words[-2:] }}|{{ words[9] }}|{{ words[:-1] }}|{{ s[::2] }}
{{ s | upper }}|{{ 'ÄB' | lower }}|{{ 'hELLO wORLD' | capitalize }}|{{ 'hELLO wORLD-foo (bar)' | title }}|{{ none_value | upper }}
{{ "it's a dog's life".title() }}|{{ 'x1y'.title() }}|{{ 'aBC dEF'.capitalize() }}|{{ ''.capitalize() }}
{{ '  a b  ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ '  a '.strip() }}|{{ 'xya'.lstrip('xy') }}|{{ 'a\\n'.rstrip('\\n') }}|{{ '\\x1ca\\xa0'.strip() }}
{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'a b c'.split(none, 1) }}|{{ 'a-b-c'.rsplit('-', 1) }}|{{ ''.split() }}|{{ ''.split(',') }}
{{ 'a\\nb\\r\\nc\\n'.splitlines() }}|{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'abc'.startswith(('x', 'y')) }}
{{ 'aXbX'.replace('X', '-') }}|{{ 'aaa'.replace('a', 'b', 2) }}|{{ 'ab'.replace('', '-') }}|{{ 'aa' | replace('a', 'b', 1) }}|{{ 5 | replace('5', 6) }}
{{ ', '.join(words) }}|{{ 'abcabc'.find('c') }}|{{ 'abc'.find('z') }}|{{ 'abcabc'.count('bc') }}|{{ 'a'.ljust(3, '.') }}|{{ 'a'.rjust(3) }}|{{ 'ab'.center(5, '*') }}|{{ '-5'.zfill(4) }}
{{ ', '.join(numbers) }}
{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'prefix-x'.removeprefix('prefix-') }}|{{ 'x.py'.removesuffix('.py') }}
{{ '12'.isdigit() }}|{{ 'a1'.isalnum() }}|{{ 'ab'.isalpha() }}|{{ ' '.isspace() }}|{{ 'AB1'.isupper() }}|{{ ''.isdigit() }}|{{ 'ab'.islower() }}
{{ '{} and {}'.format(1, 'a') }}|{{ '{a}'.format(a=none) }}|{{ '{0}{0}'.format('x') }}
{{ words | sort }}|{{ numbers | sort(reverse=true) }}|{{ people | sort(attribute='age') | map(attribute='name') | list }}|{{ words | sort(case_sensitive=true) }}
{{ mixed | sort }}
{{ words | first }}|{{ words | last }}|{{ empty | first }}|{{ empty | last }}|{{ 'abc' | first }}|{{ d | first }}
{{ words | reverse | list }}|{{ 'abc' | reverse }}|{{ words | unique | list }}|{{ [1, 1.0, 2] | unique | list }}
{{ numbers | sum }}|{{ people | sum(attribute='age') }}|{{ numbers | max }}|{{ words | min }}|{{ people | max(attribute='age') }}|{{ [0.1, 0.2] | sum }}
{{ people | map(attribute='name') | join('+') }}|{{ words | map('upper') | list }}|{{ people | map(attribute='x', default='-') | list }}|{{ words | map('replace', 'a', 'z') | join }}
{{ people | selectattr('age', 'gt', 1) | map(attribute='name') | list }}|{{ people | rejectattr('age', 'equalto', 1) | list | length }}|{{ people | selectattr('age') | list | length }}
{{ numbers | select('odd') | list }}|{{ numbers | reject('in', [1, 2]) | list }}|{{ mixed | select | list }}
{{ words | map('upper') }}
{% set g = words | map('upper') %}{{ g | list }}{{ g | list }}{% if g %}yes{% endif %}
{{ words | select('equalto', 'a') | length }}
{{ d | dictsort }}|{{ d | items | list }}|{{ d | list }}|{{ 'ab' | list }}
{{ d | tojson }}|{{ mixed | tojson }}|{{ s | tojson }}|{{ d | tojson(indent=2) }}|{{ [] | tojson(indent=2) }}|{{ 1.0 | tojson }}|{{ s | tojson(ensure_ascii=true) }}
{{ d | tojson(separators=(',', ':')) }}|{{ d | tojson(sort_keys=true) }}|{{ "<b>&'\\x7f\\u2028" | tojson }}|{{ d.items() | list | tojson }}
{{ missing | tojson }}
{{ d.items | tojson }}
{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(1, blank=true) }}|{{ 'a\\nb' | indent('> ') }}|{{ 'a\\n' | indent }}|
{{ '42' | int }}|{{ 'x' | int }}|{{ '3.7' | int }}|{{ 3.7 | int }}|{{ -3.7 | int }}|{{ '1_0' | int }}|{{ 'x' | int(5) }}|{{ '1.5' | float }}|{{ 'x' | float }}|{{ none | int }}|{{ true | int }}|{{ '5' | float }}
{{ 2.5 | round }}|{{ 3.5 | round }}|{{ 2.675 | round(2) }}|{{ 0.125 | round(2) }}|{{ 7 | round }}|{{ 2.1 | round(0, 'ceil') }}|{{ -2.5 | round }}|{{ 1234.5678 | round(1) }}
{{ missing | default('x') }}|{{ none | default('x') }}|{{ none | default('x', true) }}|{{ '' | d('y', boolean=true) }}|{{ missing | d }}|{{ 0 | default(1) }}
{{ -3 | abs }}|{{ 2.5 | abs }}|{{ '%s!' | format('a') }}|{{ words | string }}|{{ none | string }}|{{ 'a b c' | wordcount }}|{{ d | attr('get') is callable }}
{{ none is none }}|{{ 1 is number }}|{{ true is number }}|{{ 1.0 is integer }}|{{ 1 is integer }}|{{ true is integer }}|{{ 'a' is string }}|{{ d is mapping }}|{{ words is iterable }}|{{ d is iterable }}|{{ 'a' is sequence }}|{{ d is sequence }}|{{ 1 is iterable }}|{{ missing is iterable }}|{{ missing is sequence }}|{{ true is boolean }}|{{ 1 is boolean }}|{{ 1.5 is float }}|{{ t is true }}|{{ 1 is true }}|{{ no is false }}|{{ 3 is odd }}|{{ 4 is even }}|{{ 'A' is upper }}|{{ 'a' is lower }}|{{ missing is undefined }}|{{ range is callable }}|{{ none is not none }}|{{ not none is none }}
{{ range(3) }}|{{ range(1, 7, 2) | list }}|{{ range(3, 0, -1) | list }}|{{ range(2) | length }}|{{ range(5)[2] }}
{% macro m(a, b='x', c) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 2, 3) }}{{ m(b=5, a=none) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, x=2) }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}
{% macro m() %}[{{ caller('u') }}]{% endmacro %}{% call(x) m() %}in {{ x }}{% endcall %}
{% set x = 'out' %}{% macro m() %}{{ x }}{{ y }}{% endmacro %}{% for y in [1] %}{% set x = 'in' %}{{ m() }}{% endfor %}
{% macro fact(n) %}{% if n < 2 %}1{% else %}{{ n * (fact(n - 1) | int) }}{% endif %}{% endmacro %}{{ fact(6) }}
{% macro m() %}{% set z = 1 %}{{ z }}{% endmacro %}{{ m() }}{{ z }}{{ m() | length }}
{% set x %}a{{ n }}{% endset %}{{ x }}|{% filter upper %}a{{ n }}b{% endfilter %}|{% set a, b = (1, 2) %}{{ b }}{{ a }}
{% set a, b = [1, 2, 3] %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }};{% endfor %}
{{ 'y' if n else 'z' }}|{{ 'y' if no }}|{{ 'a' if no else 'b' if no else 'c' }}|{{ (1 if t else 2) + 1 }}
{{ n and 'x' }}|{{ no or none }}|{{ '' or [] or 'z' }}|{{ not '' }}|{{ t and no }}|{{ missing or 'm' }}
{{ 1 < 2 and 2 < 3 }}|{{ 'a' 'b' }}|{{ "q\\"'" }}|{{ '\\t\\\\' }}|{{ '\\u00e9\\x41' }}
{{ 1 + 2 ~ 'a' }}
{{ (1 + 2) ~ 'a' }}
{{ 'a' ~ 1 + 'b' }}|{{ 'a' + 'b' ~ 1 }}|{{ 'n: ' ~ 2 * 3 }}|{{ loop is defined }}
{{ 1 < 3 < 2 }}
{{ namespace(a=1).a }}|{{ dict(a=1, b=2) }}|{{ namespace({'q': 2}).q }}
{{ raise_exception('no') }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %b %j %y %I %p %%') }}
{{ s.__class__ }}
{{ words.append('x') }}
{% set _ = d.update({'x': 1}) %}{{ d }}
{{ 100000000000000000000 }}
{{ 9007199254740993 }}
{{ 1e16 }}
{{ 0.1 + 0.2 }}|{{ 1.0 * 100 }}|{{ 12345678901234567.0 }}|{{ 0.00001 * 1 }}|{{ 3.0 }}
{{ 0.00001 }}|{{ 123456789012345680.0 }}|{{ 1000000000000000.0 }}|{{ 0.0001 }}|{{ -0.0 }}
{# comment #}a{#- c -#} b {{- 'c' -}} d
  {% if t %}
    x
  {% endif %}
  y {% if no %} {% endif %} z
{% if t -%}   a   {%- endif %}  b
{%- for m in people %}{{ '<' ~ m.name ~ '>' }}{%- if not loop.last %}, {% endif %}{%- endfor %}
{% generation %}x{% endgeneration %}
{{ people[0].name }}|{{ people.0.name }}|{{ people[-1]['age'] }}|{{ words.index('A') }}|{{ words.count('a') }}
{{ people | map(attribute='name') | map('lower') | sort | join(',') }}
{{ (people | selectattr('name', 'equalto', 'bob') | list)[0].age }}|{{ (people | first).name }}
{{ 'é'.upper() }}|{{ 'ß'.upper() }}|{{ 'ΑΣ'.lower() }}|{{ 'İ'.lower() | length }}
{{ 'a' | nothing }}
{{ 'a' is nothing }}
{{ 'a'.nothing() }}
{{ words | batch(2) | list }}
{{ '<b>' | e }}
{% include 'x' %}
{{ loop.index }}
{{ 5 is divisibleby 5 }}
{{ words | join(', ', attribute='x') }}
{{ people | join(', ', attribute='name') }}
{{ people | map(attribute='name') | first }}
{{ (none, true, 1.0, 'a', "it's", 'q"', 'both\\'"', '\\n\\t\\x00é\\u200b🙂') }}
{{ {'a': {'b': [1, {'c': none}]}} }}
{{ ('a',) if false else ('a', 'b') }}
{{ [1, 2, 3][1:2] + ['x'] }}|{{ 'abc'[1] * 3 }}|{{ -n }}|{{ +f }}|{{ -(-1) }}|{{ 3 - -1 }}|{{ 3 -1 }}
{{ n > 5 and f < 3 }}|{{ n >= 7 }}|{{ n != 7 }}|{{ not n == 7 }}|{{ not (n in numbers) }}|{{ n not in numbers }}
{{ n[1:] }}
{{ d[1:] }}
{{ [1] | select('divisibleby', 0) | list }}
{% set x = 'inf' | float %}{{ x | int }}
{{ missing | int(9) }}
{{ missing | float }}
{{ 'ß x' | title }}|{{ 'ß x'.title() }}|{{ 'ßA' | capitalize }}
{{ missing is callable }}|{{ n is callable }}|{{ range is callable }}
{{ ('ab' | safe)[0] }}
{{ (-3) ** 2 }}
{{ lipsum is defined }}
{{ f | round(400, 'ceil') }}
{{ '🙂b'[0] }}|{{ '🙂b'[-1] }}|{{ 'ab'[5] }}|{{ '🙂b' | length }}|{{ '🙂🙂'.strip('🙂') }}|{{ 'a🙂'.strip('🙂') }}
""".strip("\n").split("\n")

# Lines of one template.
BLOCKS = [
    "  {% if t %}\n    x\n  {% endif %}\n  y {% if no %} {% endif %} z\n",
    "a\n\n  {%- if t %}\n\n b\n  {%- endif -%}\n\n c\n\n",
    "{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\n{# note #}\nend\n\n",
    "{% set x %}\n  a\n{% endset %}\n[{{ x }}]\r\nb\rc\n",
    "x{# a\nb #}\n  {#- c #}\ny\t{% if t %}\tz\t{% endif %}\t\n",
    "{% macro m(x) -%}\n  {{- x }}\n{%- endmacro %}\n\n{{ m('a') }}\n{{ m('b') -}}\n\n c",
]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city. It's “now”.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Größe & <name>"},
                    "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
                    "units": {"type": ["string", "null"], "enum": ["C", "F"]},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}},
]
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "abcdef123",
            "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "exact": True, "near": None}},
        }
    ],
}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123", "content": '{"temperature": 21.5}'}
USER = {"role": "user", "content": "What's the weather in Zürich? 🙂"}
SYSTEM = {"role": "system", "content": "You are helpful.\n"}
ANSWER = {"role": "assistant", "content": "It is 21.5 degrees."}
THOUGHT = {
    "role": "assistant",
    "content": "<think>\nHm.\n</think>\n\nHello!",
    "reasoning_content": "Hm.",
}
TEXT_CALL = {
    **CALL,
    "tool_calls": [{**CALL["tool_calls"][0], "function": {"name": "noop", "arguments": '{"a": [1, 2.5]}'}}],
}

CHATS = [
    ([USER], {}),
    ([SYSTEM, USER], {}),
    ([USER, ANSWER, {"role": "user", "content": "  Thanks!  "}], {}),
    ([SYSTEM, USER, ANSWER, USER, THOUGHT, USER], {"add_generation_prompt": False}),
    ([SYSTEM, USER], {"tools": TOOLS}),
    ([SYSTEM, USER, CALL, RESULT, ANSWER, USER], {"tools": TOOLS}),
    ([USER, TEXT_CALL, RESULT], {"tools": TOOLS}),
    ([USER, THOUGHT, USER], {"enable_thinking": True}),
    ([USER, THOUGHT, USER], {"enable_thinking": False, "date_string": "01 Jan 2025"}),
    ([{"role": "user", "content": [{"type": "text", "text": "parts"}]}], {}),
    ([USER, {"role": "assistant", "content": None, "tool_calls": CALL["tool_calls"]}, RESULT], {"tools": TOOLS}),
    ([], {}),
]


class Generation(Extension):
    """The block that transformers adds."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = fail
    made.globals["strftime_now"] = NOW.strftime
    return made


def rendered(template, **variables):
    try:
        return environment().from_string(template).render(**json.loads(json.dumps(variables)))
    except Exception:
        return None


def hashed(text):
    """FNV-1a of UTF-8, in hexadecimal; None stays."""
    if text is None:
        return None
    value = 0x811C9DC5
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def chat_text(template, messages, more):
    variables = {"add_generation_prompt": True, "tools": None, "documents": None, **more}
    return rendered(template, messages=messages, bos_token="<s>", eos_token="</s>", **variables)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--templates")
    parser.add_argument("--texts", help="a file for the texts of real templates, to compare them")
    options = parser.parse_args()
    snippets = [[one, rendered(one, **VARIABLES)] for one in SNIPPETS + BLOCKS]
    if options.templates:
        texts = {}
        for path in sorted(Path(options.templates).glob("*.jinja")):
            template = path.read_text(encoding="utf-8")
            texts[path.name] = [chat_text(template, *chat) for chat in CHATS]
        real = {name: [hashed(text) for text in all] for name, all in texts.items()}
        if options.texts:
            Path(options.texts).write_text(json.dumps(texts, ensure_ascii=False))
    else:
        real = json.loads(PATH.read_text())["real"]
    parts = {
        "now": json.dumps(NOW.isoformat()),
        "variables": json.dumps(VARIABLES, ensure_ascii=False),
        "snippets": "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in snippets) + "\n]",
        "chats": "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in CHATS) + "\n]",
        "real": "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in real.items()) + "\n}",
    }
    PATH.write_text("{\n" + ",\n".join(f'"{key}": {part}' for key, part in parts.items()) + "\n}\n")


main()
