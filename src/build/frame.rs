//! The body of an answer in one of several frames, so that no single frame is what a model learns.
//!
//! In: facts. Out: text. Values stand as they are in the results.

use super::fact::Fact;
use super::label::{capitalised, is_plural, listed};
use super::phrase::PLACEHOLDER;

/// How an answer is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// A table of two columns.
    Table,
    /// One bullet a record.
    Bullets,
    /// Sentences.
    Prose,
    /// One line a record, as in a chat message.
    Message,
    /// One numbered line a record.
    Numbered,
    /// All in one line.
    Inline,
}

impl Frame {
    /// All frames.
    pub const ALL: [Self; 6] = [Self::Table, Self::Bullets, Self::Prose, Self::Message, Self::Numbered, Self::Inline];

    /// Between the opening, the body and the note.
    pub fn gap(self) -> &'static str {
        match self {
            Self::Table | Self::Bullets | Self::Numbered => "\n\n",
            Self::Message => "\n",
            Self::Prose | Self::Inline => " ",
        }
    }

    /// Whether the facts can be laid out so: a table takes no bars, no line breaks and no two rows of the same name,
    /// sentences no line breaks.
    pub fn takes(self, facts: &[Fact]) -> bool {
        match self {
            Self::Table => !facts.iter().any(|fact| fact.text.contains(['|', '\n'])) && !names_repeat(facts),
            Self::Prose | Self::Message | Self::Numbered | Self::Inline => {
                !facts.iter().any(|fact| fact.text.contains('\n'))
            }
            Self::Bullets => true,
        }
    }

    /// The body.
    pub fn render(self, facts: &[Fact]) -> String {
        let records = records(facts);
        match self {
            Self::Table => table(&records),
            Self::Bullets => records.iter().map(|record| format!("- {}", line(record))).collect::<Vec<_>>().join("\n"),
            Self::Prose => records.iter().map(sentence).collect::<Vec<_>>().join(" "),
            Self::Message => records.iter().map(line).collect::<Vec<_>>().join("\n"),
            Self::Numbered => {
                let numbered =
                    records.iter().enumerate().map(|(index, record)| format!("{}. {}", index + 1, line(record)));
                numbered.collect::<Vec<_>>().join("\n")
            }
            Self::Inline => {
                format!("{}.", records.iter().map(line).collect::<Vec<_>>().join("; ").trim_end_matches('.'))
            }
        }
    }
}

/// Facts of one object; fields with the same label are one field with several values.
struct Record {
    heading: Option<String>,
    fields: Vec<(String, Vec<String>)>,
}

fn records(facts: &[Fact]) -> Vec<Record> {
    let mut records: Vec<(&str, Record)> = Vec::new();
    for fact in facts {
        let is_new = records.last().is_none_or(|(key, _)| *key != fact.record);
        if is_new {
            records.push((&fact.record, Record { heading: fact.heading.clone(), fields: Vec::new() }));
        }
        let Some((_, record)) = records.last_mut() else { continue };
        match record.fields.iter_mut().find(|(label, _)| *label == fact.label) {
            Some((_, values)) if values.contains(&fact.text) => {}
            Some((_, values)) => values.push(fact.text.clone()),
            None => record.fields.push((fact.label.clone(), vec![fact.text.clone()])),
        }
    }
    records.into_iter().map(|(_, record)| record).collect()
}

/// The field that names its record, so that "Transaction: ATM" needs no "merchant".
pub(super) fn names_record(label: &str) -> bool {
    ["name", "title", "summary", "subject", "item", "merchant", "query", "event", "vendor", "service", "text"]
        .contains(&label)
}

/// `Transaction: ATM; type: Withdrawal`.
fn line(record: &Record) -> String {
    let part = |(index, (label, values)): (usize, &(String, Vec<String>))| {
        let values = values.join(", ");
        match (index, &record.heading) {
            (0, Some(heading)) if names_record(label) || label == heading => {
                format!("{}: {values}", capitalised(heading))
            }
            (0, Some(heading)) => format!("{} {label}: {values}", capitalised(heading)),
            (0, None) => format!("{}: {values}", capitalised(label)),
            _ => format!("{label}: {values}"),
        }
    };
    record.fields.iter().enumerate().map(part).collect::<Vec<_>>().join("; ")
}

fn table(records: &[Record]) -> String {
    let mut rows = vec!["| Detail | Value |".to_owned(), "|---|---|".to_owned()];
    for record in records {
        for (label, values) in &record.fields {
            let name = match &record.heading {
                Some(heading) if heading == label || label.starts_with(heading.as_str()) => label.clone(),
                Some(heading) if names_record(label) && label == "name" => heading.clone(),
                Some(heading) => format!("{heading} {label}"),
                None => label.clone(),
            };
            rows.push(format!("| {} | {} |", capitalised(&name), values.join(", ")));
        }
    }
    rows.join("\n")
}

/// "The transaction merchant is ATM and the type is Withdrawal."
fn sentence(record: &Record) -> String {
    let clauses: Vec<String> = record
        .fields
        .iter()
        .enumerate()
        .map(|(index, (label, values))| match &record.heading {
            Some(heading) if index == 0 && !label.starts_with(heading.as_str()) => {
                clause(&format!("{heading} {label}"), values)
            }
            _ => clause(label, values),
        })
        .collect();
    format!("{}.", capitalised(&listed(&clauses)))
}

fn clause(label: &str, values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
    let verb = if values.len() > 1 || is_plural(label) { "are" } else { "is" };
    format!("the {label} {verb} {}", listed(&quoted))
}

/// Records without a heading that share a label: rows of a table could not be told apart.
fn names_repeat(facts: &[Fact]) -> bool {
    let clash =
        |a: &Fact, b: &Fact| a.heading.is_none() && b.heading.is_none() && a.label == b.label && a.record != b.record;
    facts.iter().enumerate().any(|(index, fact)| facts[index + 1..].iter().any(|other| clash(fact, other)))
}

/// Text with more than one word is set off, or the sentence around it would run into it.
fn quote(value: &str) -> String {
    let is_placeholder = PLACEHOLDER.contains(&value);
    let is_text = value.contains(' ') && value.chars().any(char::is_alphabetic) && !is_placeholder;
    if is_text && !value.contains('"') { format!("\"{value}\"") } else { value.to_owned() }
}
