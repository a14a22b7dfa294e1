//! Claims about normalisation that need its insides.

use super::normalise::{Camel, Normalised};

#[test]
fn every_byte_of_normalised_text_points_into_the_payload() {
    let payload = "İ **Straße**\u{200B} snake_case camelCase １２３ e\u{301}";
    let text = Normalised::of(payload, Camel::Split);
    for start in 0..text.text.len() {
        let origin = text.origin(&(start..start + 1));
        assert!(payload.get(origin.clone()).is_some(), "{start}: {origin:?}");
    }
}

#[test]
fn compact_text_drops_what_separates_groups_only() {
    let text = Normalised::of("DE12 0000-00.5,7", Camel::Keep);
    assert_eq!(text.compact().0, "de120000005,7");
}

#[test]
fn every_character_of_a_reading_points_into_the_payload() {
    let payload = r#"{"a": "café %C3%A9%20x &amp; YWxpY2VAZXhhbXBsZS5jb20= \x41\u00e9"}"#;
    for reading in super::reading::readings(payload) {
        for (start, character) in reading.text.char_indices() {
            let origin = reading.origin(&(start..start + character.len_utf8()));
            assert!(payload.get(origin.clone()).is_some(), "{start}: {origin:?}");
        }
    }
}
