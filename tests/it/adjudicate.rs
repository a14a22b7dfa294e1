//! Claims about `adjudicate`.
