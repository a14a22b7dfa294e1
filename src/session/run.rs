//! All sessions of a slate, several together, each kept as soon as it ends.

use std::collections::BTreeSet;

use super::model::Models;
use super::play::play;
use super::progress::Progress;
use super::settings::Settings;
use super::slate::{Seat, Slate};
use crate::endpoint::in_parallel;
use crate::error::Result;

/// Plays every session that is not finished yet. Sessions of one model run together as far as the model allows.
///
/// # Errors
/// An interruption, a model that is given up, progress that cannot be written; finished sessions are kept.
pub fn play_all(settings: &Settings, slate: &Slate, models: &Models, progress: &mut Progress) -> Result<()> {
    let seats = slate.seats(settings);
    let names: BTreeSet<&str> = settings.conditions.iter().map(|condition| condition.model.as_str()).collect();
    for name in names {
        let waiting: Vec<(usize, &Seat<'_>)> = seats
            .iter()
            .enumerate()
            .filter(|(place, seat)| seat.condition.model == name && !progress.has(*place))
            .collect();
        let workers = models.0.get(name).map_or(1, super::model::Model::workers);
        in_parallel(
            workers,
            &waiting,
            |(_, seat)| play(seat, settings, models),
            |at, outcome| progress.add(waiting[at].0, &outcome?),
        )?;
    }
    Ok(())
}
