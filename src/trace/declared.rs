//! What a source says of a trace beside its texts: by which kind of inference its clues lead to the conclusion, and whether its
//! request asks for a private entry.
//!
//! In: a [`Trace`]. Out: names and answers, absent where the source says nothing.

use serde_json::Value;

use super::Trace;

/// The five types of TOP-Bench v2 in the order of their numbers (arXiv 2512.16310); its chains begin with "Type 3: ...".
const NUMBERED: [&str; 5] = [
    "identity-fragmentation",
    "contextual-decoding",
    "behavioral-correlation",
    "predictive-triangulation",
    "social-graph-triangulation",
];

impl Trace {
    /// The type of inference, by the name that the source declares or the number that its chain begins with.
    pub fn inference_type(&self) -> Option<String> {
        let named = self.said("inference_type").and_then(Value::as_str).map(str::trim);
        let named = named.filter(|name| !name.is_empty()).map(str::to_owned);
        named.or_else(|| numbered(self.inference_chain.as_deref()?).map(str::to_owned))
    }

    /// Whether the request asks for a private entry itself, so that the right answer discloses it. Composed scenarios say so,
    /// and other sources may (`"asks_private": true`); absent where nobody does.
    pub fn asks_private(&self) -> Option<bool> {
        match (self.said("asks_private").and_then(Value::as_bool), self.extra.get("synthesis")) {
            (Some(asks), _) => Some(asks),
            (None, Some(_)) => Some(false),
            (None, None) => None,
        }
    }

    /// A field of the source that the canonical form does not have, or of what a composed scenario was made of.
    fn said(&self, name: &str) -> Option<&Value> {
        self.extra.get(name).or_else(|| self.extra.get("synthesis")?.get(name))
    }
}

/// `Type 3: ...` or `[Type 3: ...] ...`.
fn numbered(chain: &str) -> Option<&'static str> {
    let rest = chain.trim_start().trim_start_matches('[').strip_prefix("Type ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let number: usize = digits.parse().ok()?;
    NUMBERED.get(number.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn a_chain_s_number_names_its_type() {
        for (chain, expected) in [
            ("Type 3: Resource & Behavioral Correlation (The Pattern). T1 ...", Some("behavioral-correlation")),
            ("[Type 5: Social Graph Triangulation] Applying ...", Some("social-graph-triangulation")),
            (" Type 1: The Jigsaw", Some("identity-fragmentation")),
            ("Type 12: of something else", None),
            ("Type 0: none", None),
            ("Types of inference", None),
            ("T1 ties a name to a code.", None),
            ("", None),
        ] {
            assert_eq!(numbered(chain), expected, "{chain}");
        }
    }
}
