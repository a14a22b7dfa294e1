//! Training files as rows: our own, or made elsewhere in the same form.
//!
//! In: `sft.jsonl` or `dpo.jsonl`. Out: rows that hold something to learn from. `null` and absent fields are equal.

use std::path::Path;

use super::{Message, PreferencePair, Role, SftRow};
use crate::error::{Error, Fault, Result};
use crate::run::jsonl;

/// Reads SFT rows.
///
/// # Errors
/// An unreadable file, or as [`parse_sft`].
pub fn read_sft(path: &Path) -> Result<Vec<SftRow>> {
    parse_sft(&bytes_of(path)?, &path.display().to_string())
}

/// SFT rows out of bytes; `place` names them in errors.
///
/// # Errors
/// No rows, or a fault for each of the first ten rows without an assistant's answer at the end.
pub fn parse_sft(bytes: &[u8], place: &str) -> Result<Vec<SftRow>> {
    let rows: Vec<SftRow> = jsonl::parse(bytes, place)?;
    check(place, &rows, |row| {
        ends_with_answer(&row.messages)
            .then_some(())
            .ok_or("`messages` must end with an assistant turn that is not empty")
    })?;
    Ok(rows)
}

/// Reads preference pairs.
///
/// # Errors
/// An unreadable file, or as [`parse_preferences`].
pub fn read_preferences(path: &Path) -> Result<Vec<PreferencePair>> {
    parse_preferences(&bytes_of(path)?, &path.display().to_string())
}

/// Preference pairs out of bytes; `place` names them in errors.
///
/// # Errors
/// No rows, or a fault for each of the first ten rows that give nothing to prefer: no prompt, an empty answer, or equal
/// answers (the loss would stay at ln 2).
pub fn parse_preferences(bytes: &[u8], place: &str) -> Result<Vec<PreferencePair>> {
    let pairs: Vec<PreferencePair> = jsonl::parse(bytes, place)?;
    check(place, &pairs, |pair| {
        if pair.prompt.is_empty() {
            Err("`prompt` must hold at least one turn")
        } else if !ends_with_answer(&pair.chosen) {
            Err("`chosen` must end with an assistant turn that is not empty")
        } else if !ends_with_answer(&pair.rejected) {
            Err("`rejected` must end with an assistant turn that is not empty")
        } else if pair.chosen == pair.rejected {
            Err("`chosen` and `rejected` must differ")
        } else {
            Ok(())
        }
    })?;
    Ok(pairs)
}

/// Reads preference rows of which each may lack its chosen or its rejected answer, as an empty list.
///
/// # Errors
/// An unreadable file, no rows, or a fault for each of the first ten rows that give nothing to learn from.
pub fn read_unpaired(path: &Path) -> Result<Vec<PreferencePair>> {
    let place = path.display().to_string();
    let pairs: Vec<PreferencePair> = jsonl::parse(&bytes_of(path)?, &place)?;
    check(&place, &pairs, |pair| {
        let is_answer = |turns: &[Message]| turns.is_empty() || ends_with_answer(turns);
        if pair.prompt.is_empty() {
            Err("`prompt` must hold at least one turn")
        } else if pair.chosen.is_empty() && pair.rejected.is_empty() {
            Err("`chosen` or `rejected` must hold an answer")
        } else if !is_answer(&pair.chosen) || !is_answer(&pair.rejected) {
            Err("`chosen` and `rejected` must each be empty or end with an assistant turn that is not empty")
        } else if pair.chosen == pair.rejected {
            Err("`chosen` and `rejected` must differ")
        } else {
            Ok(())
        }
    })?;
    Ok(pairs)
}

fn bytes_of(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::read(path, source))
}

fn ends_with_answer(turns: &[Message]) -> bool {
    turns.last().is_some_and(|turn| turn.role == Role::Assistant && !turn.content.trim().is_empty())
}

fn check<T>(place: &str, rows: &[T], problem: impl Fn(&T) -> Result<(), &'static str>) -> Result<()> {
    if rows.is_empty() {
        return Err(Fault::new("no rows").at(place).expected("at least one row").into());
    }
    let faults: Vec<Fault> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| Some(Fault::new(problem(row).err()?).at(format!("{place}, row {index}"))))
        .take(10)
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}
