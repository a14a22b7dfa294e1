//! Contracts as compact JSON: in the order of their fields, as files hold them, and in the order of names without the digest, which is
//! the canonical form that the digest is of.
//!
//! In: a [`Contract`]. Out: bytes, those of `serde_json`; a third of the time of deriving went into writing JSON before.

use super::{Authorization, Channel, Contract, Provenance, Required, Target, TargetRole};

/// The order of the members of every object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// That of the fields.
    Declared,
    /// That of their names; without the digest.
    Sorted,
}

/// One member's value.
#[derive(Clone, Copy)]
enum Member<'a> {
    /// Not written.
    Absent,
    Flag(bool),
    Count(u32),
    Text(&'a str),
    Maybe(Option<&'a str>),
    Texts(&'a [String]),
    Provenance(&'a Provenance),
    Channels(&'a [Channel]),
    Targets(&'a [Target]),
    Authorized(&'a [Authorization]),
    Required(&'a [Required]),
}

impl<'a> Member<'a> {
    /// A name, or nothing at all.
    fn unless_absent(text: Option<&'a str>) -> Self {
        text.map_or(Self::Absent, Self::Text)
    }
}

/// Appends a contract.
pub(super) fn write(contract: &Contract, order: Order, out: &mut Vec<u8>) {
    let digest = if order == Order::Declared { Member::Text(&contract.digest) } else { Member::Absent };
    let members = [
        ("contract_id", Member::Text(&contract.contract_id)),
        ("trace_id", Member::Maybe(contract.trace_id.as_deref())),
        ("budget", Member::Count(contract.budget)),
        ("expected_outlet", Member::Maybe(contract.expected_outlet.as_deref())),
        ("channels", Member::Channels(&contract.channels)),
        ("targets", Member::Targets(&contract.targets)),
        ("authorized", Member::Authorized(&contract.authorized)),
        ("required", Member::Required(&contract.required)),
        ("locale", Member::unless_absent(contract.locale.as_deref())),
        ("digest", digest),
    ];
    object(members, [6, 2, 4, 0, 9, 3, 8, 7, 5, 1], order, out);
}

fn channel(channel: &Channel, order: Order, out: &mut Vec<u8>) {
    let members = [
        ("name", Member::Text(&channel.name)),
        ("visibility", Member::Text(channel.visibility.name())),
        ("recipient", Member::Maybe(channel.recipient.as_deref())),
    ];
    object(members, [0, 2, 1], order, out);
}

fn target(target: &Target, order: Order, out: &mut Vec<u8>) {
    let members = [
        ("target_id", Member::Text(&target.target_id)),
        ("value", Member::Text(&target.value)),
        ("aliases", Member::Texts(&target.aliases)),
        ("type", Member::Text(target.kind.name())),
        ("weak", Member::Flag(target.weak)),
        ("provenance", Member::Provenance(&target.provenance)),
    ];
    object(members, [2, 5, 0, 3, 1, 4], order, out);
}

fn provenance(provenance: &Provenance, order: Order, out: &mut Vec<u8>) {
    let members = [
        ("item", Member::Maybe(provenance.item.as_deref())),
        ("tools", Member::Texts(&provenance.tools)),
        ("pointers", Member::Texts(&provenance.pointers)),
        ("field", Member::Maybe(provenance.field.as_deref())),
        ("role", Member::unless_absent(provenance.role.map(TargetRole::name))),
    ];
    object(members, [3, 0, 2, 4, 1], order, out);
}

fn authorization(pair: &Authorization, order: Order, out: &mut Vec<u8>) {
    let members = [("recipient", Member::Text(&pair.recipient)), ("target_id", Member::Text(&pair.target_id))];
    object(members, [0, 1], order, out);
}

fn required(required: &Required, order: Order, out: &mut Vec<u8>) {
    let members = [("value", Member::Text(&required.value)), ("pointers", Member::Texts(&required.pointers))];
    object(members, [1, 0], order, out);
}

/// Writes members, in the order of `sorted` if that is asked for. Names need no escapes.
fn object<const N: usize>(members: [(&str, Member<'_>); N], sorted: [usize; N], order: Order, out: &mut Vec<u8>) {
    let mut before = b'{';
    for (at, in_order) in sorted.into_iter().enumerate() {
        let (name, member) = members[if order == Order::Declared { at } else { in_order }];
        if matches!(member, Member::Absent) {
            continue;
        }
        out.extend([before, b'"']);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        value(member, order, out);
        before = b',';
    }
    if before == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}

fn value(member: Member<'_>, order: Order, out: &mut Vec<u8>) {
    match member {
        Member::Absent | Member::Maybe(None) => out.extend_from_slice(b"null"),
        Member::Flag(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        Member::Count(count) => out.extend_from_slice(count.to_string().as_bytes()),
        Member::Text(text) | Member::Maybe(Some(text)) => string(text, out),
        Member::Texts(texts) => list(texts, out, |text, out| string(text, out)),
        Member::Provenance(place) => provenance(place, order, out),
        Member::Channels(channels) => list(channels, out, |item, out| channel(item, order, out)),
        Member::Targets(targets) => list(targets, out, |item, out| target(item, order, out)),
        Member::Authorized(pairs) => list(pairs, out, |item, out| authorization(item, order, out)),
        Member::Required(values) => list(values, out, |item, out| required(item, order, out)),
    }
}

fn list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

#[expect(clippy::needless_bitwise_bool, reason = "without a way out of the loop many bytes are compared at once")]
fn string(text: &str, out: &mut Vec<u8>) {
    let has_escapes = text.bytes().fold(false, |found, byte| found | (byte < 0x20) | (byte == b'"') | (byte == b'\\'));
    if has_escapes {
        // Writing to a list of bytes cannot fail.
        let _ = serde_json::to_writer(out, text);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::TargetKind;
    use crate::run::digest;

    /// Every kind and role, every field with a value, and those that may be absent once more without one.
    fn contracts() -> Vec<Contract> {
        let whole = r#"{"contract_id": "c \"1\"", "trace_id": "t", "budget": 7, "expected_outlet": "mail", "locale": "de_DE",
            "channels": [{"name": "mail", "visibility": "external", "recipient": "r"}, {"name": "log", "visibility": "internal"},
                {"name": "response", "visibility": "requester"}],
            "targets": [{"target_id": "e1", "value": "\u00e9\n\u007f", "aliases": ["a", "b\u0001"], "type": "label", "weak": true,
                "provenance": {"item": "i", "tools": ["T1"], "pointers": ["/T1/x\\y"], "field": "basis"}},
                {"target_id": "e2", "value": "x y"}],
            "authorized": [{"recipient": "r", "target_id": "e2"}], "required": [{"value": "1.50", "pointers": ["/T1/y"]}],
            "digest": "d"}"#;
        let mut contracts: Vec<Contract> = [whole, r#"{"contract_id": "c", "channels": [], "targets": []}"#]
            .iter()
            .map(|text| serde_json::from_str(text).expect("a contract"))
            .collect();
        let base = contracts[0].targets[0].clone();
        for role in TargetRole::ALL {
            let mut target = base.clone();
            target.provenance.role = Some(role);
            contracts[0].targets.push(target);
        }
        for kind in TargetKind::ALL {
            contracts[0].targets.push(Target { kind, ..base.clone() });
        }
        contracts
    }

    #[test]
    fn a_contract_is_written_as_serde_writes_it() {
        for contract in contracts() {
            let mut written = Vec::new();
            write(&contract, Order::Declared, &mut written);
            assert_eq!(String::from_utf8(written).expect("text"), serde_json::to_string(&contract).expect("JSON"));
        }
    }

    #[test]
    fn the_canonical_form_is_that_of_any_json_value_without_the_digest() {
        for contract in contracts() {
            let mut value = serde_json::to_value(&contract).expect("JSON");
            value.as_object_mut().expect("an object").remove("digest");
            let mut written = Vec::new();
            write(&contract, Order::Sorted, &mut written);
            assert_eq!(digest::of_bytes(&written), digest::of_json(&value), "{}", String::from_utf8_lossy(&written));
        }
    }
}
