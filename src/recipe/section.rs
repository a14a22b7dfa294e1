//! A table of the recipe being read: every key is taken once, every fault is kept, and what nobody took is unknown.

use serde::de::DeserializeOwned;
use toml::Table;

use crate::error::Fault;

/// One table of the recipe and the faults found so far.
#[derive(Debug)]
pub struct Section<'faults> {
    name: String,
    table: Table,
    known: Vec<&'static str>,
    faults: &'faults mut Vec<Fault>,
}

impl<'faults> Section<'faults> {
    /// A section named `name` (empty for the top level).
    pub fn new(name: &str, table: Table, faults: &'faults mut Vec<Fault>) -> Self {
        Self { name: name.to_owned(), table, known: Vec::new(), faults }
    }

    /// The key as the user would write it from the top.
    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Takes an optional key; a value of the wrong form is a fault and reads as absent.
    pub fn take<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        self.known.push(key);
        let value = self.table.remove(key)?;
        let got = value.to_string();
        match value.try_into::<T>() {
            Ok(value) => Some(value),
            Err(error) => {
                let text = error.to_string();
                let reason = text.lines().next().unwrap_or_default().trim();
                self.faults.push(describe(&self.path(key), reason, &got));
                None
            }
        }
    }

    /// Takes a key that has a default.
    pub fn take_or<T: DeserializeOwned>(&mut self, key: &'static str, default: T) -> T {
        self.take(key).unwrap_or(default)
    }

    /// Takes a key that must be there.
    pub fn require<T: DeserializeOwned>(&mut self, key: &'static str, expected: &str) -> Option<T> {
        if self.table.contains_key(key) {
            return self.take(key);
        }
        self.known.push(key);
        self.faults.push(Fault::new(format!("`{}` is missing", self.path(key))).expected(expected));
        None
    }

    /// Whether the key is there, known or not.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Takes a sub-table; anything else under that key is a fault.
    pub fn table(&mut self, key: &'static str) -> Option<Table> {
        self.take(key)
    }

    /// Reports a fault of this section that no single key shows.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Every key that nobody took is unknown: a fault each, with the nearest known key as a hint.
    pub fn finish(self) {
        for key in self.table.keys() {
            let path = if self.name.is_empty() { key.clone() } else { format!("{}.{key}", self.name) };
            let mut fault = Fault::new(format!("unknown key `{path}`"));
            if let Some(near) = nearest(key, &self.known) {
                fault = fault.hint(format!("did you mean `{near}`?"));
            } else {
                fault = fault.hint(format!("known here: {}", self.known.join(", ")));
            }
            self.faults.push(fault);
        }
    }
}

/// `` `sft.learning_rate` must be above 0, got `-1.0` ``: one sentence whoever found the fault.
fn describe(path: &str, reason: &str, got: &str) -> Fault {
    if let Some(rule) = reason.strip_prefix("must ") {
        let rule = rule.split(", got `").next().unwrap_or(rule);
        return Fault::new(format!("`{path}` must {rule}")).got(got);
    }
    let fault = Fault::new(format!("`{path}` cannot be read: {reason}")).got(got);
    match near_variant(reason) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault,
    }
}

/// The known word nearest to an unknown one, out of serde's sentence that lists both in backticks.
fn near_variant(reason: &str) -> Option<&str> {
    let mut words = reason.strip_prefix("unknown variant ")?.split('`').skip(1).step_by(2);
    let word = words.next()?;
    nearest(word, &words.collect::<Vec<_>>())
}

/// The known name that an unknown one is nearest to, if it is near.
pub fn nearest<'key>(key: &str, known: &[&'key str]) -> Option<&'key str> {
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(key, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}
