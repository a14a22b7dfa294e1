//! Claims about normalisation that need its insides.

use super::normalise::{Camel, Normalised, units};
use super::payload;

#[test]
fn every_byte_of_normalised_text_points_into_the_payload() {
    let payload = "İ **Straße**\u{200B} snake_case camelCase １２３ e\u{301}";
    for reading in payload::readings(payload) {
        let text = Normalised::of(&reading, Camel::Split);
        for start in 0..text.text.len() {
            let origin = text.origin(&(start..start + 1));
            assert!(payload.get(origin.clone()).is_some(), "{start}: {origin:?}");
        }
    }
}

#[test]
fn compact_text_drops_spaces_and_hyphens_only() {
    let text = Normalised::of(&units("DE12 0000-00.5"), Camel::Keep);
    assert_eq!(text.compact().0, "de12000000.5");
}
