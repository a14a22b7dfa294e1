"""Makes templates/ beside it: chat templates, and what transformers renders with them.

    pip install transformers trl jinja2
    python make_templates.py [every template's cases, into this file]

The templates are those that TRL ships (Apache-2.0) of models under Apache-2.0 or MIT, with TRL's own training variants, which
have generation marks; and `constructs-*.jinja`, written for this purpose. `cases.json` holds conversations, what the template
is given with them, and the text, or the words of the exception; with generation marks, also their spans in characters.
With a path, cases of all of TRL's templates go there instead, with their sources, and nothing else is written.
"""

import copy
import json
import sys
from datetime import datetime
from pathlib import Path

import transformers.utils.chat_template_utils as utils
import trl

HERE = Path(__file__).parent / "templates"
SHIPPED = Path(trl.__file__).parent / "chat_templates"
NAMES = [
    "deepseek_r1_distill", "deepseekv3", "deepseekv3_training", "glm4moe", "glm4moe_training", "gptoss", "gptoss_training", "idefics3",
    "idefics3_training", "phi3", "phi3_training", "phi3_5", "qwen2_5", "qwen2_5_training", "qwen2_5_vl", "qwen3", "qwen3_training",
    "qwen3_5_think", "qwen3_5_think_training", "qwen3_6", "qwen3_instruct_2507", "qwen3_instruct_2507_training", "qwen3_vl", "smolvlm",
]


class Day(datetime):
    """The day of every rendering."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 3, 4, 5, 6, 7)


TOOLS = [{
    "type": "function",
    "function": {
        "name": "get_invoice",
        "description": "Reads an invoice <by> its \"number\".",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "string", "description": "e.g. CI-2291"}, "limit": {"type": "integer", "default": 3}},
            "required": ["number"],
        },
        "return": {"type": "object"},
    },
}]
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Pay 185.00 <now> & \"here\"\u2028caf\u00e9?"}
ANSWER = {"role": "assistant", "content": "Paid 185.00."}
AGAIN = {"role": "user", "content": " And\n\u65e5\u672c? "}
THOUGHT = {"role": "assistant", "content": "<think>\nIt is due.\n</think>\n\nPaid it."}
REASONED = {"role": "assistant", "reasoning_content": "It is due.", "thinking": "It is due.", "content": "Paid it."}


def call(arguments):
    function = {"name": "get_invoice", "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "a1", "type": "function", "function": function}]}


RESULT = {"role": "tool", "tool_call_id": "a1", "name": "get_invoice", "content": "{\"amount\": 185.0}"}
ARGUMENTS = {"number": "CI-\u00e9", "limit": 2, "exact": True, "note": None, "ratio": 1.0}
CONVERSATIONS = {
    "turns": ([SYSTEM, USER, ANSWER, AGAIN], None),
    "no-system": ([USER, ANSWER], None),
    "tools": ([SYSTEM, USER], TOOLS),
    "tool-call": ([USER, call(ARGUMENTS), RESULT, ANSWER], TOOLS),
    "tool-call-text": ([USER, call(json.dumps(ARGUMENTS)), RESULT, RESULT], TOOLS),
    "thought": ([USER, THOUGHT, AGAIN, THOUGHT], None),
    "reasoned": ([SYSTEM, USER, REASONED, AGAIN, REASONED], None),
}
# conversation, generation prompt, further variables
PLANS = [
    ("turns", True, {}), ("no-system", False, {}), ("tools", True, {}), ("tool-call", False, {}), ("tool-call-text", True, {}),
    ("thought", False, {}), ("reasoned", False, {}), ("turns", True, {"enable_thinking": False}),
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

CONSTRUCTS = {
    "constructs-json": "{%- for m in messages %}{{ m | tojson }}\n{{ m | tojson(indent=2) }}\n{%- endfor %}\n"
    "{{ {'b': 1.5, 'a': [true, none, 'x'], 'e': [], 'f': {}} | tojson }}{{ tools | tojson(indent=4, ensure_ascii=true) if tools }}\n"
    "{{ {'b': 1, 'a': {'d': 2, 'c': 3}} | tojson(sort_keys=true) }}{{ [1, 2] | tojson(separators=(',', ':')) }}",
    "constructs-control": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ loop.index }}/{{ loop.length }} {{ m.content }}|"
    "{% if loop.index0 == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}{{ strftime_now('%d %b %Y, %A %H:%M') }}"
    "{% if tools is not none and messages | length > 1 %}{{ raise_exception('no tools please: ' ~ (tools | length)) }}{% endif %}",
    "constructs-marks": "{{ bos_token }}{% macro turn(m) %}[{{ m.role }}] {{ m.content }}{% endmacro %}{% set ns = namespace(count=0) %}\n"
    "{% for message in messages %}\n    {% if message.role == 'assistant' %}\n[assistant] {% generation %}{{ message.content }}"
    "{%- if message.tool_calls %}{% for call in message.tool_calls %}{% set f = call.function %}<{{ f.name }}>{{ f.arguments | tojson }}"
    "{% set ns.count = ns.count + 1 %}{% endfor %}{% endif %}{{ eos_token }}\n{% endgeneration %}\n"
    "    {% else %}\n{{ turn(message) }}\n    {% endif %}\n{% endfor %}{{ ns.count }}{% if add_generation_prompt %}[assistant] {% endif %}",
    "constructs-values": "{% set user = messages | selectattr('role', 'equalto', 'user') | list %}{{ user | length }}{{ user[-1].content.strip().split()[-1] }}"
    "{% for m in messages[::-1] %}{{ m.role[:3] | capitalize }}{{ m.content.find('a') }}{{ m['content'].startswith(('Pay', 'Paid')) }}{% endfor %}"
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ rest | map(attribute='role') | join(', ') }}"
    "{{ 7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 1.0 }} {{ 3 / 2 }} {{ true }} {{ none }} {{ [1, 'a', none, true, {'k': 1.5}] }} {{ 'x' * 3 }} {{ 'a' in 'cat' }} {{ 'it\\'s' }}"
    "{{ messages[0].items() | list | length }} {{ messages[0].get('name', 'nobody') }} {{ undefined_thing is defined }}{{ undefined_thing }}"
    "{% for k, v in {'b': 2, 'a': 1} | dictsort %}{{ k }}={{ v }};{% endfor %}{% for k, v in {'z': 1, 'y': 2}.items() %}{{ k ~ v }}{% endfor %}"
    "{{ 'A b'.lower().title() }} {{ '%s-%d' | format('n', 3) }} {{ ' x '.rstrip() ~ '|' ~ ' x '.lstrip() }} {{ 'abc' | replace('b', 'B') }} {{ 'a,b,c'.split(',', 1) | join('+') }} {{ 'abc'[::-1] }} {{ 'x-y'.partition('-') | length }}"
    "{{ 5 is odd }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is iterable }}{{ [] is sequence }}{{ none is none }}{{ none is iterable }}{{ 'a' is iterable }}{{ none | string }}{{ 1.0 | string }}{{ true | string }}{{ [none, true] | string }}{{ {'a': none} | string }}{{ none ~ 'a' }}{{ 1 is number }}{{ 1 is integer }}{{ 1.5 is float }}{{ false is false }}",
}


def cases(name, source):
    found = []
    for conversation, prompt, variables in PLANS:
        messages, tools = CONVERSATIONS[conversation]
        case = {"template": name, "conversation": conversation, "add_generation_prompt": prompt, "variables": variables}
        marked = "endgeneration" in source
        try:
            texts, spans = utils.render_jinja_template(
                conversations=[copy.deepcopy(messages)], tools=copy.deepcopy(tools), chat_template=source, add_generation_prompt=prompt,
                return_assistant_tokens_mask=marked, **variables, **TOKENS,
            )
            case["text"] = texts[0]
            if marked:
                case["spans"] = spans[0]
        except Exception as error:
            case["error"] = str(error)
        found.append(case)
    return found


def masks():
    """Ids and assistant masks by a tokenizer, the tests' tiny one, under templates with marks."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(HERE.parent.parent / "cases/token/tiny")
    rows = []
    for name in ["constructs-marks", "qwen3_training", "qwen2_5_training", "phi3_training", "deepseekv3_training"]:
        source = (HERE / f"{name}.jinja").read_text()
        for conversation in ("turns", "no-system", "thought"):
            encoded = tokenizer.apply_chat_template(
                CONVERSATIONS[conversation][0], chat_template=source, return_assistant_tokens_mask=True, return_dict=True,
            )
            row = {"template": name, "conversation": conversation, "ids": encoded["input_ids"], "mask": encoded["assistant_masks"]}
            rows.append(row)
    return rows


def main():
    utils.datetime = Day
    # As templates see them: transformers copies a message's reasoning to every name that templates have for it.
    seen = utils._alias_reasoning_fields
    conversations = {name: {"messages": seen(messages), "tools": tools} for name, (messages, tools) in CONVERSATIONS.items()}
    if len(sys.argv) > 1:
        sources = {path.stem: path.read_text() for path in sorted(SHIPPED.glob("*.jinja"))} | CONSTRUCTS
    else:
        sources = {name: (SHIPPED / f"{name}.jinja").read_text() for name in NAMES} | CONSTRUCTS
    found = [case for name, source in sources.items() for case in cases(name, source)]
    data = {"tokens": TOKENS, "conversations": conversations, "cases": found}
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({**data, "sources": sources}))
        return
    HERE.mkdir(exist_ok=True)
    for name, source in sources.items():
        (HERE / f"{name}.jinja").write_text(source)
    data["masks"] = masks()
    (HERE / "cases.json").write_text(json.dumps(data, ensure_ascii=True, indent=0, separators=(",", ":")) + "\n")
    print(len(sources), "templates,", len(found), "cases,", sum("error" in case for case in found), "refusals")


main()
