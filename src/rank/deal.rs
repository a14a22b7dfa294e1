//! Work dealt out to ranks by weight. Pure but for [`dealt`], and the same on every rank.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Group;
use crate::error::{Error, Result};

/// Deals things of these weights (tokens, mostly) to `ranks`: the heaviest first, each to the rank that has the least so far, of equal
/// ones to the first. Indices by rank, ascending; one rank gets all of them in their order.
pub fn deal(weights: &[usize], ranks: usize) -> Vec<Vec<usize>> {
    let mut heaviest_first: Vec<usize> = (0..weights.len()).collect();
    heaviest_first.sort_by_key(|&index| (std::cmp::Reverse(weights[index]), index));
    let mut shares = vec![Vec::new(); ranks.max(1)];
    let mut loads = vec![0_usize; shares.len()];
    for index in heaviest_first {
        // Things without weight are spread by count.
        let lightest = (0..shares.len()).min_by_key(|&rank| (loads[rank], shares[rank].len(), rank)).unwrap_or(0);
        loads[lightest] += weights[index];
        shares[lightest].push(index);
    }
    for share in &mut shares {
        share.sort_unstable();
    }
    shares
}

/// Does `work` for each thing, dealt out by weight; every rank gets all results, in the order of the things.
///
/// # Errors
/// What `work` returns; as [`Group::gather`].
pub fn dealt<T: Serialize + DeserializeOwned>(
    group: &dyn Group,
    weights: &[usize],
    work: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<T>> {
    if group.is_alone() {
        return (0..weights.len()).map(work).collect();
    }
    let shares = deal(weights, group.size());
    let own: Vec<T> = shares[group.rank()].iter().copied().map(work).collect::<Result<_>>()?;
    in_order(&shares, group.exchange(own)?)
}

/// Puts the results of all ranks into the order of the things that were dealt.
///
/// # Errors
/// [`Error::Failed`] if a rank has not as many results as it was dealt things.
pub fn in_order<T>(shares: &[Vec<usize>], results: Vec<Vec<T>>) -> Result<Vec<T>> {
    let count = shares.iter().map(Vec::len).sum();
    let mut slots: Vec<Option<T>> = std::iter::repeat_with(|| None).take(count).collect();
    let fits =
        shares.len() == results.len() && shares.iter().zip(&results).all(|(dealt, done)| dealt.len() == done.len());
    for (&index, result) in shares.iter().flatten().zip(results.into_iter().flatten()) {
        if let Some(slot) = slots.get_mut(index) {
            *slot = Some(result);
        }
    }
    let ordered: Option<Vec<T>> = slots.into_iter().collect();
    ordered.filter(|_| fits).ok_or_else(|| Error::Failed("a rank has not done all that it was dealt".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::Alone;

    #[test]
    fn one_rank_is_dealt_everything_in_its_order() {
        assert_eq!(deal(&[3, 9, 1, 9], 1), [vec![0, 1, 2, 3]]);
        assert_eq!(deal(&[], 2), [Vec::<usize>::new(), Vec::new()]);
    }

    #[test]
    fn shares_are_even_by_weight_and_each_thing_is_in_one_of_them() {
        let weights: Vec<usize> = (0..97).map(|index| 20 + (index * 37) % 211).collect();
        for ranks in [2, 3, 8] {
            let shares = deal(&weights, ranks);
            let mut all: Vec<usize> = shares.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..97).collect::<Vec<_>>());
            let loads: Vec<usize> =
                shares.iter().map(|share| share.iter().map(|&index| weights[index]).sum()).collect();
            // Never further apart than the lightest thing that could still move.
            assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 230, "{loads:?}");
            assert!(shares.iter().all(|share| share.is_sorted()));
        }
    }

    #[test]
    fn equal_weights_go_round_and_weightless_things_are_spread() {
        assert_eq!(deal(&[5, 5, 5], 2), [vec![0, 2], vec![1]]);
        assert_eq!(deal(&[0, 0, 0, 0], 2), [vec![0, 2], vec![1, 3]]);
        assert_eq!(deal(&[7], 3), [vec![0], vec![], vec![]]);
    }

    #[test]
    fn results_come_back_in_the_order_of_the_things() {
        let weights = [1, 8, 2, 9, 4];
        let shares = deal(&weights, 2);
        let results: Vec<Vec<usize>> =
            shares.iter().map(|share| share.iter().map(|index| index * 10).collect()).collect();
        assert_eq!(in_order(&shares, results).unwrap(), [0, 10, 20, 30, 40]);
        assert_eq!(dealt(&Alone, &weights, |index| Ok(index * 10)).unwrap(), [0, 10, 20, 30, 40]);
    }

    #[test]
    fn a_rank_that_did_less_than_it_was_dealt_is_an_error() {
        let shares = deal(&[1, 1, 1], 2);
        for results in [vec![vec![0], vec![1]], vec![vec![0, 2]], vec![vec![0, 2], vec![1, 1]]] {
            assert!(in_order(&shares, results).is_err());
        }
    }
}
