//! Sets of targets, by their place in a contract.

/// A set of targets of one contract: a bit a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetSet(Vec<u64>);

impl TargetSet {
    /// All of the first `count` targets.
    pub fn all(count: usize) -> Self {
        (0..count).collect()
    }

    /// Adds a target.
    pub fn insert(&mut self, target: usize) {
        let word = target / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (target % 64);
    }

    /// Whether the target is in it.
    pub fn contains(&self, target: usize) -> bool {
        self.0.get(target / 64).is_some_and(|word| word >> (target % 64) & 1 == 1)
    }

    /// Its size.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has no target.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Adds every target of `other`.
    pub fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// Targets in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.extend(other);
        union
    }

    /// Targets in both.
    #[must_use]
    pub fn both(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(word, also)| word & also).collect())
    }

    /// Targets in it that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        Self(self.0.iter().zip(others).map(|(word, less)| word & !less).collect())
    }

    /// Its targets in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(place, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * 64 + bit))
    }
}

impl FromIterator<usize> for TargetSet {
    fn from_iter<I: IntoIterator<Item = usize>>(targets: I) -> Self {
        let mut set = Self::default();
        targets.into_iter().for_each(|target| set.insert(target));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_different_lengths_combine() {
        let (short, long): (TargetSet, TargetSet) = ([1, 3].into_iter().collect(), [3, 130].into_iter().collect());
        assert_eq!(short.union(&long).iter().collect::<Vec<_>>(), [1, 3, 130]);
        assert_eq!(long.without(&short).iter().collect::<Vec<_>>(), [130]);
        assert_eq!(short.without(&long).iter().collect::<Vec<_>>(), [1]);
        assert_eq!((long.both(&short).len(), short.both(&long).len()), (1, 1));
        assert!(long.contains(130) && !short.contains(130) && TargetSet::default().is_empty());
    }
}
