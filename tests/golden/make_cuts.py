"""Makes cuts.json beside it: one table of merges, and the ids that each family's way of cutting text gives.

    pip install transformers tokenizers
    python make_cuts.py

The merges are trained on uncut text, so that words, digits and spaces would merge wherever a cut does not keep them apart. Ids
are those of transformers' own Qwen2 tokenizer and TikToken converter (Llama 3), and of the tokenizers library for SmolLM.
"""

import inspect
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter

TEXTS = [
    "Pay $1,250.00 on 2026-03-04 at 17:30, then 12345678.",
    "It's 2026, isn't it? We'LL see; THEY'RE here: I'd say 'so'.",
    "  leading and   inner  spaces \n\n\nlines\t\ttabs \r\n end  ",
    "cafe\u0301 na\u00efve \u65e5\u672c\u8a9e \u0661\u0662\u0663 \U0001f600\u2028\u00a0end",
    '{"amount": 185.0, "ids": ["T1", "T2"]}', "(hello) world!!! _x_ #tag",
]


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=480, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )
    pieces = [text[start : start + 7] for text in TEXTS for start in range(0, len(text), 3)]
    tokenizer.train_from_iterator(pieces * 2 + TEXTS, trainer)
    tables = json.loads(tokenizer.to_str())["model"]
    vocab, merges = tables["vocab"], [tuple(merge) for merge in tables["merges"]]

    def cut_as(*steps, ignore_merges=False):
        made = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
        made.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
        made.decoder = decoders.ByteLevel()
        return made

    pattern = inspect.signature(TikTokenConverter.__init__).parameters["pattern"].default
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    cuts = {
        "smollm": cut_as(digits, pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "qwen2": Qwen2Tokenizer(vocab=vocab, merges=merges)._tokenizer,
        "llama-bpe": cut_as(pre_tokenizers.Split(Regex(pattern), "isolated"), bytes_only, ignore_merges=True),
    }
    rows = [{"text": text, **{name: cut.encode(text, add_special_tokens=False).ids for name, cut in cuts.items()}} for text in TEXTS]
    tokens = [token for token, _ in sorted(vocab.items(), key=lambda entry: entry[1])]
    data = {"tokens": tokens, "merges": [" ".join(merge) for merge in merges], "texts": rows}
    (Path(__file__).parent / "cuts.json").write_text(json.dumps(data) + "\n")


main()
