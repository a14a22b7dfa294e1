//! The scalar values of tool results, each with its place.
//!
//! In: JSON text, or a prompt with JSON objects in it. Out: [`Fact`]s in the order of the text. Numbers keep their digits as
//! written (`170.50` stays so): a parsed float would not.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Deeper nesting is not followed; no tool result comes near it.
const DEEPEST: usize = 32;

/// One scalar of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The way to it.
    pub path: Vec<Step>,
    /// Its text: strings decoded, numbers as written.
    pub text: String,
    /// Whether it was a JSON string.
    pub is_string: bool,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Into an object.
    Key(String),
    /// Into an array.
    Index(usize),
}

impl Fact {
    /// JSON pointer within the result, e.g. `/transactions/0/amount`.
    pub fn pointer(&self) -> String {
        self.path.iter().fold(String::new(), |pointer, step| match step {
            Step::Key(key) => format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => format!("{pointer}/{index}"),
        })
    }
}

/// The facts of one JSON text; none if it is not JSON. Null and blank values say nothing and are left out.
pub fn facts_of(json: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Ok(value) = serde_json::from_str::<&RawValue>(json) {
        collect(value, &mut Vec::new(), &mut facts);
    }
    facts
}

/// The facts of every JSON object within a text, and the text outside of the objects.
pub fn facts_within(text: &str) -> (Vec<Fact>, String) {
    let mut facts = Vec::new();
    let mut outside = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        outside.push_str(&rest[..start]);
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<&RawValue>();
        if let Some(Ok(value)) = values.next() {
            collect(value, &mut Vec::new(), &mut facts);
            rest = &rest[start + value.get().len()..];
        } else {
            outside.push('{');
            rest = &rest[start + 1..];
        }
    }
    outside.push_str(rest);
    (facts, outside)
}

fn collect(value: &RawValue, path: &mut Vec<Step>, facts: &mut Vec<Fact>) {
    if path.len() > DEEPEST {
        return;
    }
    let text = value.get().trim();
    match text.as_bytes().first() {
        Some(b'{') => {
            for (key, value) in serde_json::from_str::<Fields>(text).map(|fields| fields.0).unwrap_or_default() {
                path.push(Step::Key(key));
                collect(value, path, facts);
                path.pop();
            }
        }
        Some(b'[') => {
            for (index, value) in serde_json::from_str::<Items>(text).map(|items| items.0).unwrap_or_default().into_iter().enumerate() {
                path.push(Step::Index(index));
                collect(value, path, facts);
                path.pop();
            }
        }
        Some(b'"') => {
            let decoded: String = serde_json::from_str(text).unwrap_or_default();
            if !decoded.trim().is_empty() {
                facts.push(Fact { path: path.clone(), text: decoded.trim().to_owned(), is_string: true });
            }
        }
        _ if text != "null" => facts.push(Fact { path: path.clone(), text: text.to_owned(), is_string: false }),
        _ => {}
    }
}

/// An object's fields in their order, values unparsed.
struct Fields<'json>(Vec<(String, &'json RawValue)>);

/// An array's items, unparsed.
struct Items<'json>(Vec<&'json RawValue>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Items<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = sequence.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(InOrder)
    }
}
