//! Ranks as threads of the test: the same group as over MPI, without MPI.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use topalign::error::{Error, Result};
use topalign::rank::Group;

/// A rank that waits longer than this for another fails.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Default)]
struct Round {
    given: Vec<Option<Vec<u8>>>,
    number: usize,
    last: Arc<Vec<Vec<u8>>>,
}

struct Hub {
    round: Mutex<Round>,
    complete: Condvar,
}

pub struct Member {
    rank: usize,
    size: usize,
    hub: Arc<Hub>,
}

impl Group for Member {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
        let all = self.gather(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
        values.fill(0.0);
        for bytes in all {
            let others = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
            assert_eq!(bytes.len(), 4 * values.len(), "ranks sum different things");
            values.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        Ok(())
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut round = self.hub.round.lock().unwrap();
        let number = round.number;
        round.given[self.rank] = Some(own.to_vec());
        if round.given.iter().all(Option::is_some) {
            round.last = Arc::new(round.given.iter_mut().filter_map(Option::take).collect());
            round.number += 1;
            self.hub.complete.notify_all();
        }
        let (round, waited) =
            self.hub.complete.wait_timeout_while(round, PATIENCE, |round| round.number == number).unwrap();
        if waited.timed_out() {
            return Err(Error::Failed(format!("rank {} waited in vain", self.rank)));
        }
        Ok(round.last.as_ref().clone())
    }
}

/// Runs `work` as each of `size` ranks at once; what each returned, by rank.
pub fn as_ranks<T: Send>(size: usize, work: impl Fn(&dyn Group) -> T + Sync) -> Vec<T> {
    let round = Round { given: vec![None; size], ..Round::default() };
    let hub = Arc::new(Hub { round: Mutex::new(round), complete: Condvar::new() });
    std::thread::scope(|scope| {
        let start = |rank| {
            let member = Member { rank, size, hub: Arc::clone(&hub) };
            let work = &work;
            scope.spawn(move || work(&member))
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
