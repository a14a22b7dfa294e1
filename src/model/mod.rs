//! A differentiable Llama-family decoder, its weights (safetensors, GGUF, hub) and adapters.
