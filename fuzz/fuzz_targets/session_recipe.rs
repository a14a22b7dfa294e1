//! Any text as a recipe of sessions, with an override after a last line that starts with `--set `: what is read holds what a run
//! relies on, and reads the same again.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::check_error;
use topalign_fuzz::session::SessionRecipe;

fuzz_target!(|text: &str| {
    let folder = Path::new("/recipes");
    let (text, overriding) = text.rsplit_once("\n--set ").map_or((text, None), |(text, item)| (text, Some(item)));
    let overrides: Vec<String> = overriding.into_iter().map(str::to_owned).collect();
    match SessionRecipe::parse(text, folder, &overrides) {
        Ok(recipe) => {
            let settings = &recipe.settings;
            assert!(!settings.name.is_empty() && !settings.name.contains(['/', '\\']));
            assert!((1..=1_000).contains(&settings.budget) && settings.items > 0 && settings.repeats > 0);
            assert!((0.0..=1.0).contains(&settings.outage));
            for condition in &settings.conditions {
                assert!(settings.models.contains_key(&condition.model) && settings.uses(&condition.model));
                assert!(condition.guard.iter().all(|guard| (0.0..=1.0).contains(&guard.recall)));
            }
            assert!(settings.inputs().iter().all(|input| input.is_absolute()));
            let again = SessionRecipe::parse(text, folder, &overrides).expect("it was read before");
            assert_eq!(recipe, again);
        }
        Err(error) => check_error(&error),
    }
});
