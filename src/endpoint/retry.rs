//! How long to wait before another attempt. Pure: clock and randomness are given.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Waits that double, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before the first retry.
    pub first: Duration,
    /// Never longer than this.
    pub longest: Duration,
}

impl Backoff {
    /// The wait before retry number `retry` (from 0). `jitter` in [0, 1) spreads it over its upper half, so that clients which
    /// failed together do not return together. A server's own wish is met in full; `None` when it is beyond the limit.
    pub fn wait(&self, retry: u32, jitter: f64, asked_for: Option<Duration>) -> Option<Duration> {
        if let Some(asked_for) = asked_for {
            return (asked_for <= self.longest).then(|| asked_for + self.first.mul_f64(0.25 * jitter));
        }
        let doubled = self.first.saturating_mul(1_u32.checked_shl(retry.min(20)).unwrap_or(u32::MAX));
        Some(doubled.min(self.longest).mul_f64(0.5 + 0.5 * jitter))
    }
}

/// Reads a `Retry-After` header: seconds, or a date of which the past means at once.
pub fn read_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    let milliseconds = date.as_millisecond().saturating_sub(now.as_millisecond());
    Some(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)))
}
