//! What is wrong with JSON, in words that hold none of its values: they may be sensitive.

/// The text of a `serde_json` error without its position (it counts from the row) and without the offending value. Names of
/// fields stay.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.strip_suffix(&format!(" at line {} column {}", error.line(), error.column())).unwrap_or(&text);
    without_value(text).unwrap_or_else(|| text.to_owned())
}

/// `` invalid type: integer `7`, expected a string `` becomes `invalid type: integer, expected a string`. The value may hold any
/// text, so what is expected is looked for from the end.
fn without_value(text: &str) -> Option<String> {
    let starts = ["invalid type: ", "invalid value: ", "unknown variant "];
    let start = starts.into_iter().find(|start| text.starts_with(start))?;
    let rest = &text[start.len()..];
    let kind = rest.split(['"', '`', ',']).next()?;
    let told = text[..start.len() + kind.len()].trim_end();
    Some(format!("{told}{}", &rest[rest.rfind(", expected ")?..]))
}

#[cfg(test)]
mod tests {
    use super::describe;

    fn told<T: serde::de::DeserializeOwned>(text: &str) -> String {
        describe(&serde_json::from_str::<T>(text).map(drop).unwrap_err())
    }

    #[test]
    fn a_value_of_the_wrong_type_is_not_told() {
        assert_eq!(told::<u8>(r#""secret""#), "invalid type: string, expected u8");
        assert_eq!(
            told::<Vec<u8>>(r#""secret at line 7, expected `\" none""#),
            "invalid type: string, expected a sequence"
        );
        assert_eq!(told::<u8>(r#""secret\", expected u16 at line 1 column 2""#), "invalid type: string, expected u8");
        assert_eq!(told::<String>("4021"), "invalid type: integer, expected a string");
        assert_eq!(told::<String>("-4021.5"), "invalid type: floating point, expected a string");
        assert_eq!(told::<u8>("4021"), "invalid value: integer, expected u8");
        assert_eq!(told::<String>("true"), "invalid type: boolean, expected a string");
        assert_eq!(told::<String>("null"), "invalid type: null, expected a string");
        assert_eq!(told::<char>(r#""secret""#), "invalid value: string, expected a character");
        assert_eq!(told::<u8>("[1"), "invalid type: sequence, expected u8");
    }

    #[test]
    fn an_unknown_name_is_not_told() {
        #[derive(serde::Deserialize)]
        enum Name {
            One,
            Two,
        }
        let text = told::<Name>(r#""secret`, expected `x`""#);
        assert_eq!(text, "unknown variant, expected `One` or `Two`");
    }

    #[test]
    fn what_holds_no_value_is_told_whole() {
        assert_eq!(told::<Vec<u8>>("[1"), "EOF while parsing a list");
        assert_eq!(told::<Vec<u8>>("[1 2]"), "expected `,` or `]`");
    }
}
