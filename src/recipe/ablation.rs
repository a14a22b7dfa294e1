//! An ablation: one recipe, run with parts of it changed or left out, each under several seeds.

use std::path::{Path, PathBuf};

use toml::Table;

use super::section::Section;
use super::{Recipe, path, place, syntax};
use crate::error::{Error, Fault, Result};
use crate::run::seed::Seed;

/// What to run.
#[derive(Debug, Clone)]
pub struct Ablation {
    /// A name for the run folder.
    pub name: String,
    /// Seeds of training: the recipe's own, and those after it.
    pub seeds: u64,
    /// The variations, in the order of the file. The first is what the others are held against.
    pub variations: Vec<Variation>,
}

/// The recipe with something changed.
#[derive(Debug, Clone)]
pub struct Variation {
    /// How the table calls it; also a folder's name.
    pub name: String,
    file: PathBuf,
    changes: Vec<String>,
    without: Vec<String>,
}

impl Variation {
    /// The recipe of this variation under the `index`-th seed of training; data, split and judgement stay as they are.
    ///
    /// # Errors
    /// As [`Recipe::load`].
    pub fn recipe(&self, index: u64, overrides: &[String]) -> Result<Recipe> {
        let changes: Vec<String> = overrides.iter().chain(&self.changes).cloned().collect();
        let mut recipe = Recipe::load_without(&self.file, &changes, &self.without)?;
        if index > 0 {
            recipe.training_seed = Some(Seed(recipe.training_seed().0.wrapping_add(index)));
        }
        Ok(recipe)
    }
}

impl Ablation {
    /// One recipe as it is, under several seeds of training.
    pub fn of_seeds(recipe: &Path, name: &str, seeds: u64) -> Self {
        let variation = Variation {
            name: "seeds".to_owned(),
            file: recipe.to_path_buf(),
            changes: Vec::new(),
            without: Vec::new(),
        };
        Self { name: name.to_owned(), seeds, variations: vec![variation] }
    }

    /// Reads an ablation file, and every recipe that it makes, so that a fault shows before anything is run.
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Invalid`] with every fault of the file, or those of a variation's recipe.
    pub fn load(file: &Path, overrides: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|source| Error::read(file, source))?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| place(syntax(&text, &error), file))?;
        let mut faults = Vec::new();
        let read = read(table, file.parent().unwrap_or(Path::new("")), &mut faults);
        let ablation = match read {
            Some(ablation) if faults.is_empty() => ablation,
            _ => return Err(place(Error::Invalid(faults), file)),
        };
        for variation in &ablation.variations {
            variation.recipe(0, overrides)?;
        }
        Ok(ablation)
    }
}

fn read(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> Option<Ablation> {
    let mut top = Section::new("", table, faults);
    let name: Option<String> = top.require("name", "a name for the run folder");
    let recipe: Option<String> = top.require("recipe", "the recipe that is varied");
    let seeds: u64 = top.take_or("seeds", 1);
    let common: Vec<String> = top.take_or("set", Vec::new());
    let tables: Vec<Table> = top.require("variation", "a list of `[[variation]]`").unwrap_or_default();
    if seeds == 0 {
        top.fault(Fault::new("`seeds` must be above 0"));
    }
    top.finish();
    let file = match path::resolve(&recipe?, folder) {
        Ok(file) => file,
        Err(fault) => {
            faults.push(fault.at("recipe"));
            return None;
        }
    };
    let variations: Vec<Variation> =
        tables.into_iter().filter_map(|table| read_variation(table, (&file, &common), faults)).collect();
    for (index, variation) in variations.iter().enumerate() {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.+".contains(character);
        if !variation.name.chars().all(is_plain) || variation.name.starts_with('.') || variation.name.is_empty() {
            let fault = Fault::new("the name of a variation must be a plain folder name").got(&variation.name);
            faults.push(fault.expected("letters, digits, `-`, `_`, `+` and `.`"));
        }
        if variations[..index].iter().any(|other| other.name == variation.name) {
            faults.push(Fault::new("two variations have one name").got(&variation.name));
        }
    }
    if variations.is_empty() {
        faults.push(Fault::new("no `[[variation]]` to run"));
    }
    Some(Ablation { name: name?, seeds, variations })
}

/// `common` are the changes of every variation; its own come after them.
fn read_variation(table: Table, (file, common): (&Path, &[String]), faults: &mut Vec<Fault>) -> Option<Variation> {
    let mut section = Section::new("variation", table, faults);
    let name = section.require("name", "what the table calls it");
    let own: Vec<String> = section.take_or("set", Vec::new());
    let without: Vec<String> = section.take_or("without", Vec::new());
    section.finish();
    let changes = common.iter().cloned().chain(own).collect();
    Some(Variation { name: name?, file: file.to_path_buf(), changes, without })
}
