//! Claims about `contract`.
