//! Claims about `audit`.
