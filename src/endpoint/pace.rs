//! At most so many calls a minute, evenly spaced, for all threads together; and the pauses that a server asked for.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::CallError;
use crate::run::interrupt;

/// Longest sleep between two looks at whether the user asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Hands out the times at which calls may start.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(requests_per_minute: Option<f64>) -> Self {
        let interval =
            requests_per_minute.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(60.0 / rate.max(0.001)));
        Self { interval, next: Mutex::new(Instant::now()) }
    }

    /// Waits for this call's turn.
    pub(super) fn wait(&self) -> Result<(), CallError> {
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + self.interval;
            turn
        };
        sleep_until(turn)
    }

    /// Lets no call start before `pause` is over.
    pub(super) fn hold(&self, pause: Duration) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = (*next).max(Instant::now() + pause);
    }
}

/// Sleeps, unless the user asks to stop.
pub(super) fn sleep(pause: Duration) -> Result<(), CallError> {
    sleep_until(Instant::now() + pause)
}

fn sleep_until(end: Instant) -> Result<(), CallError> {
    loop {
        if interrupt::requested() {
            return Err(CallError::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}
