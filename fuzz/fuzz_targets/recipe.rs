//! Any text as a recipe, with an override after a last line that starts with `--set `: what is read is written as TOML
//! that reads back equal.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::check_error;
use topalign_fuzz::recipe::Recipe;

fuzz_target!(|text: &str| {
    let folder = Path::new("/recipes");
    let (text, overriding) = text.rsplit_once("\n--set ").map_or((text, None), |(text, item)| (text, Some(item)));
    let overrides: Vec<String> = overriding.into_iter().map(str::to_owned).collect();
    match Recipe::parse(text, folder, &overrides) {
        Ok(recipe) => {
            let written = recipe.to_toml().expect("a recipe has a TOML form");
            let again = Recipe::parse(&written, folder, &[]).expect("a written recipe can be read");
            assert_eq!(recipe, again);
        }
        Err(error) => check_error(&error),
    }
});
