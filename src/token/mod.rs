//! A model's own tokenizer and chat template; rows become token ids with answers marked.
