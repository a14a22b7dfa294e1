//! Targets whose value a text spells in another way: the typed tier.
//!
//! In: a contract's targets, then text. Out: places of equal values. A target's type says what its value is; of clues and
//! plain texts only unmistakable forms are read (an amount with its currency, a date, a time, a percentage, an address).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::typed::{self, Notation, Value, Wanted};
use crate::contract::{Target, TargetKind};

/// A declared value.
#[derive(Debug, Clone)]
struct Declared {
    target: usize,
    alias: Option<usize>,
    value: Value,
}

/// All values of a contract's targets.
#[derive(Debug, Clone)]
pub(super) struct Values {
    by_key: BTreeMap<String, Vec<Declared>>,
    wanted: Wanted,
    notation: Arc<Notation>,
}

/// A place that spells a target's value.
pub(super) struct Equal {
    /// Index of the target.
    pub target: usize,
    /// Index of the alias.
    pub alias: Option<usize>,
    /// Bytes of the text.
    pub range: Range<usize>,
}

impl Values {
    /// Reads the values of all targets.
    pub fn new(targets: &[Target], notation: Arc<Notation>) -> Self {
        let english = typed::notation(None);
        let has_locale = !Arc::ptr_eq(&notation, &english);
        let mut values = Self { by_key: BTreeMap::new(), wanted: Wanted::default(), notation };
        for (index, target) in targets.iter().enumerate() {
            let forms = std::iter::once((None, &target.value))
                .chain(target.aliases.iter().enumerate().map(|(alias, form)| (Some(alias), form)));
            for (alias, form) in forms {
                // A contract may write its own values plainly whatever its payloads' locale.
                let plainly = || has_locale.then(|| declared(form.trim(), target.kind, &english)).flatten();
                let value = declared(form.trim(), target.kind, &values.notation).or_else(plainly);
                if let Some(value) = value {
                    values.want(&value);
                    values.by_key.entry(value.key()).or_default().push(Declared { target: index, alias, value });
                }
            }
        }
        values
    }

    fn want(&mut self, value: &Value) {
        match value {
            Value::Number(_) | Value::Money(..) | Value::Percentage(_) => self.wanted.numbers = true,
            Value::Date(..) | Value::Time(..) => self.wanted.moments = true,
            Value::Duration(_) | Value::Months(_) => self.wanted.durations = true,
            Value::Phone(..) => self.wanted.phones = true,
            Value::Email(_) => self.wanted.emails = true,
        }
    }

    /// All values, for a sieve.
    pub fn all(&self) -> impl Iterator<Item = &Value> {
        self.by_key.values().flatten().map(|declared| &declared.value)
    }

    /// All places of equal values.
    pub fn find(&self, text: &str) -> Vec<Equal> {
        if self.by_key.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (value, range) in typed::seen(text, self.wanted, &self.notation) {
            let equal =
                self.by_key.get(&value.key()).into_iter().flatten().filter(|declared| declared.value.equals(&value));
            found.extend(equal.map(|declared| Equal {
                target: declared.target,
                alias: declared.alias,
                range: range.clone(),
            }));
        }
        found
    }
}

/// The value that a target's form declares; `None` where it has none or more than one reading.
fn declared(form: &str, kind: TargetKind, notation: &Notation) -> Option<Value> {
    let wanted = match kind {
        TargetKind::Money | TargetKind::Number | TargetKind::Percentage => {
            Wanted { numbers: true, ..Wanted::default() }
        }
        TargetKind::Date | TargetKind::Time => Wanted { moments: true, ..Wanted::default() },
        TargetKind::Duration => Wanted { durations: true, ..Wanted::default() },
        TargetKind::Phone => Wanted { phones: true, ..Wanted::default() },
        TargetKind::Email => Wanted { emails: true, ..Wanted::default() },
        TargetKind::Clue | TargetKind::Text => {
            Wanted { numbers: true, moments: true, emails: true, ..Wanted::default() }
        }
        TargetKind::Label | TargetKind::Person | TargetKind::Account => return None,
    };
    let unsigned = form.trim_start_matches(['-', '\u{2212}']);
    let whole = |range: &Range<usize>| *range == (0..unsigned.len());
    typed::seen(unsigned, wanted, notation).into_iter().find_map(|(value, range)| {
        let fits = match (&value, kind) {
            (Value::Money(..), TargetKind::Money)
            | (Value::Number(_), TargetKind::Number)
            | (Value::Percentage(_), TargetKind::Percentage | TargetKind::Clue | TargetKind::Text)
            | (Value::Date(..), TargetKind::Date | TargetKind::Clue | TargetKind::Text)
            | (Value::Time(..), TargetKind::Time | TargetKind::Clue | TargetKind::Text)
            | (Value::Duration(_) | Value::Months(_), TargetKind::Duration)
            | (Value::Phone(..), TargetKind::Phone)
            | (Value::Email(_), TargetKind::Email | TargetKind::Clue | TargetKind::Text) => true,
            (Value::Money(_, currency), TargetKind::Clue | TargetKind::Text) => currency.is_some(),
            _ => false,
        };
        (fits && whole(&range)).then_some(value)
    })
}
