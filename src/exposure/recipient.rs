//! Recipients as logs write them: `Ann <ann@b.org>` is `ann@b.org`, and addresses have no case.

/// The form in which recipients are compared.
pub(super) fn key(name: &str) -> String {
    let name = name.trim();
    let address =
        name.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')).map_or(name, |(_, address)| address).trim();
    if address.contains('@') { address.to_lowercase() } else { name.to_owned() }
}

/// The recipients in one entry: a header line may hold several addresses. Splitting a display name at its comma
/// (`"Doe, Ann" <ann@b.org>`) would invent a recipient, so parts without an address stay with the next one.
pub(super) fn keys(entry: &str) -> Vec<String> {
    let parts: Vec<&str> = entry.split([',', ';']).filter(|part| !part.trim().is_empty()).collect();
    if parts.len() > 1 && parts.iter().all(|part| part.contains('@')) {
        return parts.into_iter().map(key).collect();
    }
    vec![key(entry)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_case_and_lists_of_addresses_are_read() {
        assert_eq!(key("Ann Doe <Ann@B.org>"), "ann@b.org");
        assert_eq!(key(" requester "), "requester");
        assert_eq!(keys("a@b.org; C@d.org"), ["a@b.org", "c@d.org"]);
        assert_eq!(keys("\"Doe, Ann\" <ann@b.org>"), ["ann@b.org"]);
        assert_eq!(keys("Requester"), ["Requester"]);
    }
}
