//! Validate, freeze, verify: a contract is fixed before anything is judged against it.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

use super::json::{self, Order};
use super::{Channel, Contract, Target};
use crate::error::{Error, Fault, Result};
use crate::run::digest;

/// Bytes that a contract mostly has at most.
const USUAL_BYTES: usize = 4096;

impl Contract {
    /// Checks the contract and sets its digest.
    ///
    /// # Errors
    /// Every fault found by [`Contract::validate`].
    pub fn freeze(mut self) -> Result<Self> {
        self.validate()?;
        self.digest = self.computed_digest();
        Ok(self)
    }

    /// Checks the contract and that nothing changed since it was frozen; a contract without a digest (written by hand) fails.
    ///
    /// # Errors
    /// Every fault found by [`Contract::validate`], or a digest that is not that of the content.
    pub fn verify(&self) -> Result<()> {
        self.validate()?;
        let computed = self.computed_digest();
        if self.digest == computed {
            return Ok(());
        }
        Err(Fault::new("the contract was changed after it was frozen: its `digest` is not that of its content")
            .at(self.place())
            .got(&self.digest)
            .expected(computed)
            .hint("derive it again with `topalign contract`, or freeze the edited contract as a new one")
            .into())
    }

    /// SHA-256 of the canonical form without the digest itself.
    fn computed_digest(&self) -> String {
        let mut form = Vec::with_capacity(USUAL_BYTES);
        json::write(self, Order::Sorted, &mut form);
        digest::of_bytes(&form)
    }

    /// Appends the contract as a row of `contracts.jsonl`, line break included.
    pub fn write_row(&self, out: &mut Vec<u8>) {
        json::write(self, Order::Declared, out);
        out.push(b'\n');
    }

    /// Checks everything that makes figures undefined or matches meaningless.
    ///
    /// # Errors
    /// All faults, naming contract and target by id.
    pub fn validate(&self) -> Result<()> {
        let mut faults = Vec::new();
        if self.targets.is_empty() {
            faults.push(Fault::new("no targets: the exposure of an empty set is undefined").at(self.place()));
        }
        self.check_locale(&mut faults);
        self.check_ids(&mut faults);
        self.check_channels(&mut faults);
        for target in &self.targets {
            self.check_forms(target, &mut faults);
        }
        if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
    }

    fn check_locale(&self, faults: &mut Vec<Fault>) {
        let Some(locale) = &self.locale else { return };
        if pure_rust_locales::Locale::try_from(locale.replace('-', "_").as_str()).is_err() {
            faults.push(
                Fault::new("`locale` is not known")
                    .at(self.place())
                    .got(locale)
                    .expected("a language with its country, e.g. `de_DE`"),
            );
        }
    }

    fn check_ids(&self, faults: &mut Vec<Fault>) {
        let mut seen = BTreeSet::new();
        for target in &self.targets {
            if !seen.insert(target.target_id.as_str()) {
                faults.push(Fault::new("`target_id` appears twice").at(self.place()).got(&target.target_id));
            }
        }
        for authorization in &self.authorized {
            if !seen.contains(authorization.target_id.as_str()) {
                faults.push(
                    Fault::new("`authorized` names a target that is not declared")
                        .at(self.place())
                        .got(&authorization.target_id),
                );
            }
        }
    }

    fn check_channels(&self, faults: &mut Vec<Fault>) {
        let mut seen = BTreeSet::new();
        for channel in &self.channels {
            if !seen.insert(channel.name.as_str()) {
                faults.push(Fault::new("a channel is declared twice").at(self.place()).got(&channel.name));
            }
        }
        if let Some(outlet) = &self.expected_outlet
            && !seen.contains(outlet.as_str())
        {
            let declared = seen.iter().copied().collect::<Vec<_>>().join(", ");
            faults.push(
                Fault::new("`expected_outlet` is not a declared channel")
                    .at(self.place())
                    .got(outlet)
                    .expected(format!("one of: {declared}")),
            );
        }
    }

    fn check_forms(&self, target: &Target, faults: &mut Vec<Fault>) {
        let forms = std::iter::once((None, &target.value))
            .chain(target.aliases.iter().enumerate().map(|(index, alias)| (Some(index), alias)));
        for (alias, form) in forms {
            let Some(problem) = problem_of(form) else { continue };
            let field = alias.map_or_else(|| "value".to_owned(), |index| format!("aliases[{index}]"));
            faults.push(Fault::new(format!("`{field}` {problem}, which would match almost anything")).at(format!(
                "{}, target {}",
                self.place(),
                target.target_id
            )));
        }
    }

    fn place(&self) -> String {
        format!("contract {}", self.contract_id)
    }

    /// The channel with this name.
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.name == name)
    }

    /// The target with this id.
    pub fn target(&self, target_id: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.target_id == target_id)
    }

    /// Auth(recipient, target).
    pub fn authorizes(&self, recipient: &str, target_id: &str) -> bool {
        self.authorized.iter().any(|pair| pair.recipient == recipient && pair.target_id == target_id)
    }
}

/// What makes a form unusable, if anything.
pub(super) fn problem_of(form: &str) -> Option<&'static str> {
    if form.is_ascii() {
        return problem_of_seen(form.trim());
    }
    // What no reader sees makes no form longer: marks compose, zero-width characters go.
    let form: String = form.nfc().filter(|character| !is_invisible(*character)).collect();
    problem_of_seen(form.trim())
}

fn problem_of_seen(form: &str) -> Option<&'static str> {
    if form.is_empty() {
        Some("is empty")
    } else if form.chars().nth(1).is_none() {
        Some("is a single character")
    } else if !form.chars().any(char::is_alphanumeric) {
        Some("is punctuation only")
    } else {
        None
    }
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}')
}
