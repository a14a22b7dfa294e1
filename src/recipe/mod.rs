//! Recipes: what was typed (TOML) becomes what is meant (settings that cannot be wrong), with every error at once.

pub mod settings;
