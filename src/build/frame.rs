//! The body of an answer in one of several frames, so that no single frame is what a model learns.
//!
//! In: facts. Out: text. Values stand as they are in the results.

use super::fact::Fact;
use super::label::{capitalised, is_plural, listed, plural};
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
    /// The numbered fields of the request, filled in.
    Form,
}

impl Frame {
    /// The frames that any request can be answered in.
    pub const ALL: [Self; 6] = [Self::Table, Self::Bullets, Self::Prose, Self::Message, Self::Numbered, Self::Inline];

    /// Between the opening, the body and the note.
    pub fn gap(self) -> &'static str {
        match self {
            Self::Table | Self::Bullets | Self::Numbered | Self::Form => "\n\n",
            Self::Message => "\n",
            Self::Prose | Self::Inline => " ",
        }
    }

    /// Whether the facts can be laid out so: a table takes no bars, no line breaks and no two rows of the same name,
    /// sentences no line breaks.
    pub fn takes(self, facts: &[Fact]) -> bool {
        match self {
            Self::Table => !facts.iter().any(|fact| fact.text.contains(['|', '\n'])) && !names_repeat(facts),
            Self::Prose | Self::Message | Self::Numbered | Self::Inline | Self::Form => {
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
            Self::Form => {
                let filled = facts.iter().enumerate();
                let lines = filled.map(|(index, fact)| format!("{}. {}: {}", index + 1, fact.label, fact.text));
                lines.collect::<Vec<_>>().join("\n")
            }
            Self::Inline => stopped(records.iter().map(line).collect::<Vec<_>>().join("; ")),
        }
    }
}

/// Facts of one object; fields of the same name are one field with several values.
struct Record {
    fields: Vec<Field>,
}

struct Field {
    /// What it is called where its record is not named before.
    name: String,
    label: String,
    values: Vec<String>,
}

fn records(facts: &[Fact]) -> Vec<Record> {
    let mut records: Vec<(&str, Record)> = Vec::new();
    for fact in facts {
        if records.last().is_none_or(|(key, _)| *key != fact.record) {
            records.push((&fact.record, Record { fields: Vec::new() }));
        }
        let Some((_, record)) = records.last_mut() else { continue };
        match record.fields.iter_mut().find(|field| field.label == fact.label) {
            Some(field) if field.values.contains(&fact.text) => {}
            Some(field) => field.values.push(fact.text.clone()),
            None => record.fields.push(Field {
                name: fact.name(),
                label: fact.label.clone(),
                values: vec![fact.text.clone()],
            }),
        }
    }
    for field in records.iter_mut().flat_map(|(_, record)| &mut record.fields).filter(|field| field.values.len() > 1) {
        (field.name, field.label) = (plural(&field.name), plural(&field.label));
    }
    records.into_iter().map(|(_, record)| record).collect()
}

impl Record {
    /// Its fields, the first by its whole name.
    fn named(&self) -> impl Iterator<Item = (&str, &[String])> {
        let name = |(index, field)| -> (&str, &[String]) {
            let field: &Field = field;
            (if index == 0 { &field.name } else { &field.label }, &field.values)
        };
        self.fields.iter().enumerate().map(name)
    }
}

/// `Transaction: ATM; type: Withdrawal`.
fn line(record: &Record) -> String {
    let parts = record.named().map(|(name, values)| match values {
        [value] if begins_with(value, name) => value.clone(),
        values => format!("{name}: {}", values.join(", ")),
    });
    capitalised(&parts.collect::<Vec<_>>().join("; "))
}

/// `Score: 12` under the name `score` says its name itself.
fn begins_with(value: &str, name: &str) -> bool {
    let rest = value.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &value[name.len()..]);
    rest.is_some_and(|rest| rest.starts_with(": "))
}

fn table(records: &[Record]) -> String {
    let mut rows = vec!["| Detail | Value |".to_owned(), "|---|---|".to_owned()];
    for field in records.iter().flat_map(|record| &record.fields) {
        rows.push(format!("| {} | {} |", capitalised(&field.name), field.values.join(", ")));
    }
    rows.join("\n")
}

/// "The transaction is ATM and the type is Withdrawal."
fn sentence(record: &Record) -> String {
    let clauses: Vec<String> = record.named().map(|(name, values)| clause(name, values)).collect();
    stopped(capitalised(&listed(&clauses)))
}

/// With a full stop, unless what it ends with, quoted or not, brings its own.
fn stopped(text: String) -> String {
    if text.trim_end_matches('"').ends_with(['.', '!', '?']) { text } else { format!("{text}.") }
}

fn clause(name: &str, values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
    let verb = if values.len() > 1 || is_plural(name) { "are" } else { "is" };
    format!("the {name} {verb} {}", listed(&quoted))
}

/// Values of two records under one bare name: rows of a table could not be told apart.
fn names_repeat(facts: &[Fact]) -> bool {
    let is_bare = |fact: &Fact| fact.name() == fact.label;
    let clash = |a: &Fact, b: &Fact| a.record != b.record && a.label == b.label && is_bare(a) && is_bare(b);
    facts.iter().enumerate().any(|(index, fact)| facts[index + 1..].iter().any(|other| clash(fact, other)))
}

/// Text with more than one word is set off, or the sentence around it would run into it.
fn quote(value: &str) -> String {
    let is_placeholder = PLACEHOLDER.contains(&value);
    let is_text = value.contains(' ') && value.chars().any(char::is_alphabetic) && !is_placeholder;
    if is_text && !value.contains('"') { format!("\"{value}\"") } else { value.to_owned() }
}
