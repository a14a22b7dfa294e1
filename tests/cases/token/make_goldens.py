"""Makes goldens.json and tiny/ beside it, with peers' implementations as the source of what is right.

    pip install transformers tokenizers jinja2 xllamacpp
    python make_goldens.py SmolLM2-135M-Instruct.Q4_1.gguf

- `smollm2`: ids by llama.cpp's own tokenizer, from the GGUF file's metadata (independent of the tokenizers library).
- `tiny`: a byte-level BPE of 400 entries trained here; ids and renderings by transformers.
- `templates`: renderings by transformers.
- `json`: texts by Python's json.dumps.
"""

import json
import os
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))

TEXTS = [
    "Pay $1,250.00 on 2026-03-04 at 17:30.",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "It's 2026, isn't it? We'll see; THEY'RE here.",
    "  leading and   inner  spaces \n\n\nlines\t\ttabs ",
    "caf\u00e9 na\u00efve \u65e5\u672c\u8a9e \U0001f600 \u2028 \u00a0end",
    '{"amount": 185.0, "ids": ["T1", "T2"], "note": null}',
    "12345678901234567890",
    "",
]

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Pay 185.00 <now> & \"here\""}
ANSWER = {"role": "assistant", "content": "Paid 185.00."}
USER2 = {"role": "user", "content": " And\n\u65e5\u672c? "}

TEMPLATES = {
    "chatml-injects-system": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a test.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "blocks-on-lines": "{{ bos_token }}\n{% for message in messages %}\n    {% if message.role == 'user' %}\n[INST] {{ message['content'] }} [/INST]\n    {%- else %}\n {{ message.content | trim }}{{ eos_token }}\n    {% endif %}\n{% endfor %}\n{# a comment #}\nend\n",
    "generation-marks": "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<end>{% endgeneration %}\n{% else %}{{ m.content }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
    "tojson": "{% for m in messages %}{{ m | tojson }}\n{% endfor %}{{ messages | tojson(indent=2) }}{{ {'b': 1.5, 'a': [true, none, 'x'], 'e': [], 'f': {}} | tojson }}",
    "loop-controls": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}|{% if loop.index0 == 2 %}{% break %}{% endif %}{% endfor %}",
    "no-system": "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}",
    "python-methods": "{% set ns = namespace(last='') %}{% for m in messages %}{% set ns.last = m.content.strip().split(' ')[-1].upper() %}{% if m['content'].startswith('Pay') and 'tool_calls' not in m and m.tool_calls is not defined %}P{% endif %}{{ m.get('name', 'nobody') }} {{ m.items() | list | length }};{% endfor %}{{ ns.last }}{{ messages[1:] | length }}{{ messages[::-1][0].role }}",
    "none-tools": "{{ tools is none }}{{ documents is none }}{% if tools %}T{% endif %}{% if not xml_tools is defined %}U{% endif %}{{ true }}{{ none }}{{ 1.0 }}{{ 3 // 2 }}{{ 7 % 4 }}",
    "macro-and-filters": "{% macro turn(m, tag='x') %}<{{ tag }}>{{ m.content | trim | replace('\\n', ' ') | upper }}{% endmacro %}{% for m in messages | rejectattr('role', 'equalto', 'system') %}{{ turn(m, tag=m.role) }}{% endfor %}{{ messages | map(attribute='role') | join(',') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
}

VALUES = [
    '{"b": 1, "a": "<&>\'", "nested": [1, 2.0, 0.1, 1e16, 1e-05, -0.0, true, null]}',
    '"\\u0000\\u001f\\u007f\\b\\f\\n\\r\\t\\"\\\\/ \\u65e5 \\ud83d\\ude00 \\u2028"',
    '[]', '{}', '[[], {}, [[]]]', '"plain"', '123456789012345678', 'null', '{"k": {"l": {"m": []}}}',
]


def smollm2(path):
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx = 512
    parameters.n_parallel = 1
    parameters.warmup = False
    server = xllamacpp.Server(parameters)

    def ids(text):
        body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
        request = urllib.request.Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())["tokens"]

    return [{"text": text, "ids": ids(text)} for text in TEXTS]


def tiny():
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    words = "system user assistant selected_tool_ids rationale the tool returns an amount and a date for your request "
    tokenizer.train_from_iterator([words * 3, '{"selected_tool_ids": ["T1", "T2"], "rationale": "both are needed"}\n\n' * 3], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>", unk_token="<|endoftext|>"
    )
    fast.chat_template = TEMPLATES["chatml-injects-system"]
    fast.save_pretrained(os.path.join(HERE, "tiny"))
    conversations = [[USER], [SYSTEM, USER], [SYSTEM, USER, ANSWER, USER2]]
    return {
        "texts": [{"text": text, "ids": fast(text, add_special_tokens=False)["input_ids"]} for text in TEXTS],
        "prompts": [
            {"messages": c, "ids": fast.apply_chat_template(c, add_generation_prompt=True, return_dict=False)} for c in conversations
        ],
    }


def templates():
    from transformers.utils.chat_template_utils import render_jinja_template

    rows = []
    for name, source in TEMPLATES.items():
        for conversation in ([USER, ANSWER], [SYSTEM, USER, ANSWER, USER2]):
            for generation in (False, True):
                row = {"name": name, "source": source, "messages": conversation, "add_generation_prompt": generation}
                try:
                    texts, _ = render_jinja_template(
                        conversations=[conversation], chat_template=source, add_generation_prompt=generation, bos_token="<s>", eos_token="</s>"
                    )
                    row["text"] = texts[0]
                except Exception as error:
                    row["error"] = str(error)
                rows.append(row)
    return rows


def main():
    goldens = {"tiny": tiny(), "templates": templates(), "json": []}
    for text in VALUES:
        for indent in (None, 2, 4):
            value = json.loads(text)
            goldens["json"].append({"value": text, "indent": indent, "text": json.dumps(value, ensure_ascii=False, indent=indent)})
    goldens["smollm2"] = smollm2(sys.argv[1])
    with open(os.path.join(HERE, "goldens.json"), "w", encoding="utf-8") as file:
        json.dump(goldens, file, ensure_ascii=True, indent=1)
        file.write("\n")
    os._exit(0)  # the server's threads do not end by themselves


main()
