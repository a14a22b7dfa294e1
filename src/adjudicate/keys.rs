//! A fixed set of numbers that most lookups miss: a table of bits answers those.
//!
//! In: numbers. Out: whether one is among them.

/// Bits of the table, as a power of two: a few thousand numbers leave most of them free.
const BITS: u32 = 16;

/// The set.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    sorted: Vec<u64>,
    /// Empty where the set is.
    bits: Vec<u64>,
}

impl Keys {
    /// Puts numbers in order.
    pub fn new(mut keys: Vec<u64>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Self::default();
        }
        let mut bits = vec![0; 1 << (BITS - 6)];
        for key in &keys {
            let (word, bit) = place(*key);
            bits[word] |= bit;
        }
        Self { sorted: keys, bits }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Whether a number is among them.
    pub fn contains(&self, key: u64) -> bool {
        let (word, bit) = place(key);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0) && self.sorted.binary_search(&key).is_ok()
    }
}

/// The bit of a number: the upper bits of a product with the golden ratio.
fn place(key: u64) -> (usize, u64) {
    let place = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BITS);
    ((place >> 6) as usize, 1 << (place & 63))
}

#[cfg(test)]
mod tests {
    use super::Keys;

    #[test]
    fn those_that_were_given_and_no_others_are_among_them() {
        let given: Vec<u64> = (0..3_000).map(|index| index * 7).collect();
        let keys = Keys::new(given);
        assert!((0..21_000).all(|key| keys.contains(key) == (key % 7 == 0)));
        assert!(Keys::new(Vec::new()).is_empty() && !Keys::default().contains(0));
    }
}
