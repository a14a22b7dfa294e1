//! The paired tests of a scenario: a social-context twin, in whose results an innocent reading is at hand, and a negative control,
//! which is judged by a conclusion that has nothing to do with it.
//!
//! In: a base trace. Out: a trace with the same request, truth and values; only what its variant says is changed.

use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::trace::{Domain, Trace, Variant};

use super::library::{Library, Norm};
use super::prose::spaced;

/// The twin: the entry that ends the chain gets a remark that explains it away. Labels and required values stay.
pub(super) fn social_context(base: &Trace, library: &Library, rng: &mut ChaCha8Rng) -> Option<Trace> {
    let mut twin = paired(base, Variant::SocialContext);
    let last = base.support.last()?;
    let clue = base.truth.as_ref()?.clues.iter().find(|clue| clue.tool_id == *last)?;
    let (record, _) = clue.pointer.rsplit_once('/')?;
    let tool = twin.tools.iter_mut().find(|tool| tool.tool_id == *last)?;
    let mut result: Value = serde_json::from_str(&tool.return_text).ok()?;
    let entry = result.pointer_mut(record)?.as_object_mut()?;
    let (key, reading) = (library.context.keys.choose(rng)?, library.context.readings.choose(rng)?);
    entry.insert(key.clone(), reading.as_str().into());
    tool.return_text = spaced(&result);
    Some(twin)
}

/// The control: the same trace, and a conclusion of another domain or, about firms, of another norm.
pub(super) fn negative_control(base: &Trace, library: &Library, rng: &mut ChaCha8Rng) -> Option<Trace> {
    let own = base.extra.get("synthesis")?["norm"].as_str()?;
    let own = library.norm(own)?;
    let is_unrelated = |norm: &&Norm| {
        let elsewhere = norm.domain() != Some(base.domain) || base.domain == Domain::Pci;
        norm.subject == own.subject && norm.id != own.id && elsewhere
    };
    let norms: Vec<&Norm> = library.norms.iter().filter(is_unrelated).collect();
    let conclusion = norms.choose(rng)?.conclusions.choose(rng)?;
    // The subject is whatever stands where the base conclusion's wording has it.
    let subject = own.conclusions.iter().find_map(|form| {
        let rest = form.strip_prefix("{S}")?;
        base.sensitive_conclusion.trim_end_matches('.').strip_suffix(rest)
    })?;
    let mut control = paired(base, Variant::NegativeControl);
    control.control_conclusion = Some(format!("{}.", conclusion.replace("{S}", subject)));
    Some(control)
}

fn paired(base: &Trace, variant: Variant) -> Trace {
    Trace { trace_id: format!("{}{}", base.trace_id, variant.suffix()), variant, ..base.clone() }
}
