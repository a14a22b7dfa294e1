//! Several requests under way together, their results handed to one thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::error::{Error, Result};
use crate::run::interrupt;

/// Runs `work` for every item on up to `workers` threads; `finished` gets each result with its item's index on the calling
/// thread, in the order in which they end. After an interruption no further item is begun.
///
/// # Errors
/// What `finished` returns, or [`Error::Interrupted`].
pub fn in_parallel<T: Sync, R: Send>(
    workers: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut finished: impl FnMut(usize, R) -> Result<()>,
) -> Result<()> {
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..workers.clamp(1, items.len().max(1)) {
            let (sender, next, stopped, work) = (sender.clone(), &next, &stopped, &work);
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) && !interrupt::requested() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    if sender.send((index, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut ended = 0;
        for (index, result) in &receiver {
            ended += 1;
            if let Err(error) = finished(index, result) {
                stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        if ended == items.len() { Ok(()) } else { Err(Error::Interrupted) }
    })
}
