//! What the keys of a return say about their values.
//!
//! In: a key. Out: [`Kinds`], told by its words in one reading.

use std::sync::LazyLock;

use super::words;

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    /// What a return is about.
    pub const MAIN: Self = Self(1);
    /// The state of something else.
    pub const STATE: Self = Self(1 << 1);
    /// Bookkeeping.
    pub const BOOKKEEPING: Self = Self(1 << 2);
    /// An amount of money.
    pub const MONEY: Self = Self(1 << 3);
    /// A date or a time.
    pub const TIME: Self = Self(1 << 4);
    /// How many, how often, how long.
    pub const COUNT: Self = Self(1 << 5);
    /// A category.
    pub const CATEGORY: Self = Self(1 << 6);

    /// Whether a kind is among them.
    pub fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

/// Words of each kind.
const NAMES: [(Kinds, &str); 7] = [
    (
        Kinds::MAIN,
        "title name summary subject item merchant amount content query location event action status topic result label product \
         recipient payee beneficiary text",
    ),
    (Kinds::STATE, "status state category priority"),
    (
        Kinds::BOOKKEEPING,
        "id uuid hash lat long lng lon timestamp session token ip ua url code created updated size version date time uid lid sku",
    ),
    (Kinds::MONEY, "amount price cost total balance fee copay salary income"),
    (Kinds::TIME, "date time timestamp day due deadline depart return"),
    (Kinds::COUNT, "count quantity frequency duration"),
    (Kinds::CATEGORY, "category"),
];

/// Words with their kinds, sorted.
static KINDS_OF: LazyLock<Vec<(&str, Kinds)>> = LazyLock::new(|| {
    let mut all: Vec<(&str, Kinds)> = Vec::new();
    for (kind, name) in NAMES.iter().flat_map(|(kind, names)| names.split(' ').map(|name| (*kind, name))) {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, kinds)) => kinds.0 |= kind.0,
            None => all.push((name, kind)),
        }
    }
    all.sort_unstable_by_key(|(name, _)| *name);
    all
});

/// All kinds that the words of a key name.
pub(super) fn kinds(key: &str) -> Kinds {
    let known = &*KINDS_OF;
    let mut kinds = Kinds::default();
    words::each_word(key, |word| {
        if let Ok(at) = known.binary_search_by_key(&word, |(name, _)| *name) {
            kinds.0 |= known[at].1.0;
        }
    });
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_kinds_of_all_its_words() {
        let amount = kinds("totalAmount");
        assert!(amount.has(Kinds::MAIN) && amount.has(Kinds::MONEY) && !amount.has(Kinds::TIME));
        assert!(kinds("due_date").has(Kinds::TIME) && kinds("due_date").has(Kinds::BOOKKEEPING));
        assert!(kinds("category").has(Kinds::CATEGORY) && kinds("category").has(Kinds::STATE));
        assert_eq!(kinds("colour"), Kinds::default());
    }
}
