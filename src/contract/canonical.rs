//! The canonical form of a contract, of which its digest is: compact JSON, the keys of every object sorted, no digest.
//!
//! In: a [`Contract`] and its parts. Out: their fields to any serializer, in the order of their names.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::{Channel, Contract, Provenance, Required, Target};

/// A value whose fields come in the order of their names.
pub(super) struct Canonical<'a, T>(pub &'a T);

/// A list of such values.
struct List<'a, T>(&'a [T]);

impl<'a, T> Serialize for List<'a, T>
where
    Canonical<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Canonical))
    }
}

impl Serialize for Canonical<'_, Contract> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let contract = self.0;
        let mut fields = serializer.serialize_struct("Contract", 9)?;
        // Its two fields are in order as they are.
        fields.serialize_field("authorized", &contract.authorized)?;
        fields.serialize_field("budget", &contract.budget)?;
        fields.serialize_field("channels", &List(&contract.channels))?;
        fields.serialize_field("contract_id", &contract.contract_id)?;
        fields.serialize_field("expected_outlet", &contract.expected_outlet)?;
        if let Some(locale) = &contract.locale {
            fields.serialize_field("locale", locale)?;
        }
        fields.serialize_field("required", &List(&contract.required))?;
        fields.serialize_field("targets", &List(&contract.targets))?;
        fields.serialize_field("trace_id", &contract.trace_id)?;
        fields.end()
    }
}

impl Serialize for Canonical<'_, Channel> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Channel", 3)?;
        fields.serialize_field("name", &self.0.name)?;
        fields.serialize_field("recipient", &self.0.recipient)?;
        fields.serialize_field("visibility", &self.0.visibility)?;
        fields.end()
    }
}

impl Serialize for Canonical<'_, Required> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Required", 2)?;
        fields.serialize_field("pointers", &self.0.pointers)?;
        fields.serialize_field("value", &self.0.value)?;
        fields.end()
    }
}

impl Serialize for Canonical<'_, Target> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Target", 6)?;
        fields.serialize_field("aliases", &self.0.aliases)?;
        fields.serialize_field("provenance", &Canonical(&self.0.provenance))?;
        fields.serialize_field("target_id", &self.0.target_id)?;
        fields.serialize_field("type", &self.0.kind)?;
        fields.serialize_field("value", &self.0.value)?;
        fields.serialize_field("weak", &self.0.weak)?;
        fields.end()
    }
}

impl Serialize for Canonical<'_, Provenance> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Provenance", 5)?;
        fields.serialize_field("field", &self.0.field)?;
        fields.serialize_field("item", &self.0.item)?;
        fields.serialize_field("pointers", &self.0.pointers)?;
        if let Some(role) = &self.0.role {
            fields.serialize_field("role", role)?;
        }
        fields.serialize_field("tools", &self.0.tools)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::digest;

    /// Every field with a value, and those that may be absent once more without one.
    #[test]
    fn the_canonical_form_is_that_of_any_json_value_without_the_digest() {
        let whole = r#"{"contract_id": "c \"1\"", "trace_id": "t", "budget": 7, "expected_outlet": "mail", "locale": "de_DE",
            "channels": [{"name": "mail", "visibility": "external", "recipient": "r"}, {"name": "log", "visibility": "internal"}],
            "targets": [{"target_id": "e1", "value": "\u00e9\n", "aliases": ["a", "b"], "type": "label", "weak": true, "provenance":
                {"item": "i", "tools": ["T1"], "pointers": ["/T1/x"], "field": "basis", "role": "forbidden-label"}},
                {"target_id": "e2", "value": "x y"}],
            "authorized": [{"recipient": "r", "target_id": "e2"}], "required": [{"value": "1.50", "pointers": ["/T1/y"]}],
            "digest": "d"}"#;
        for text in [whole, r#"{"contract_id": "c", "channels": [], "targets": []}"#] {
            let contract: Contract = serde_json::from_str(text).expect("a contract");
            let mut value = serde_json::to_value(&contract).expect("JSON");
            value.as_object_mut().expect("an object").remove("digest");
            let form = serde_json::to_vec(&Canonical(&contract)).expect("JSON");
            assert_eq!(digest::of_bytes(&form), digest::of_json(&value), "{}", String::from_utf8_lossy(&form));
        }
    }
}
