//! Claims about `command`.
