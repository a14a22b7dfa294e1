//! Claims about `report`.
