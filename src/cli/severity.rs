//! `--severity CHECK=off|warn|fail`, which commands that audit share.

use crate::dataset::{Check, Severities, Severity};
use crate::error::{Fault, Result};
use crate::recipe::nearest;

/// Reads the values of the flag.
///
/// # Errors
/// A value of another form, a check or a severity that does not exist, each with the nearest name.
pub(super) fn read_severities(items: &[String]) -> Result<Severities> {
    items.iter().map(|item| read(item).map_err(Into::into)).collect()
}

fn read(item: &str) -> Result<(Check, Severity), Fault> {
    let at = |fault: Fault| fault.at("--severity");
    let Some((check, severity)) = item.split_once('=') else {
        return Err(at(Fault::new("not a check with its severity").got(item).expected("e.g. `near-duplicate=fail`")));
    };
    let names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
    let unknown = || at(Fault::new("unknown check").got(check)).hint(hint(check, &names));
    let check = Check::parse(check).ok_or_else(unknown)?;
    let expected = || at(Fault::new("unknown severity").got(severity).expected("off, warn or fail"));
    Ok((check, Severity::parse(severity).ok_or_else(expected)?))
}

fn hint(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}
