//! Claims about tokenizers, templates, encoding and packing.
