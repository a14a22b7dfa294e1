//! Claims about `prompt`.
