//! The engine that connects the ranks, chosen in one place.

use std::sync::OnceLock;
use std::time::Duration;

#[cfg(any(not(feature = "nccl"), test))]
use super::Launcher;
use super::{Alone, Group, Place};
#[cfg(any(not(feature = "nccl"), test))]
use crate::error::Fault;
use crate::error::Result;
#[cfg(unix)]
use crate::run::interrupt;

static GROUP: OnceLock<Box<dyn Group>> = OnceLock::new();

/// What the other ranks wait before they say what went wrong: the first mostly says the same, and its end ends them.
const GIVE_WAY: Duration = Duration::from_secs(2);

/// The group of this process, connected at the first call. Without a launcher, and in a run of one rank, it is alone.
///
/// # Errors
/// A [`Fault`] for variables that make no sense, or for several ranks where this program has no engine that sums over them: each would
/// train alone and overwrite the others.
pub fn start() -> Result<&'static dyn Group> {
    if GROUP.get().is_none() {
        let group: Box<dyn Group> = match Place::of_process()?.filter(|place| place.size > 1) {
            None => Box::new(Alone),
            Some(place) => {
                let group = connect(place)?;
                #[cfg(unix)]
                interrupt::install_for_launchers();
                group
            }
        };
        let _ = GROUP.set(group);
    }
    Ok(GROUP.get().map_or(&Alone, |group| group.as_ref()))
}

fn connect(place: Place) -> Result<Box<dyn Group>> {
    #[cfg(feature = "mpi")]
    if super::message_passing::is_reachable(place) {
        let group = super::message_passing::MessagePassing::connect(place)?;
        #[cfg(feature = "nccl")]
        return Ok(Box::new(super::nccl::Nccl::over(Box::new(group))));
        #[cfg(not(feature = "nccl"))]
        return Ok(Box::new(group));
    }
    #[cfg(feature = "nccl")]
    {
        Ok(Box::new(super::nccl::Nccl::over(Box::new(super::rendezvous::Star::of_process(place)?))))
    }
    #[cfg(not(feature = "nccl"))]
    {
        Err(no_engine(place).into())
    }
}

/// NCCL serves every launcher.
#[cfg(any(not(feature = "nccl"), test))]
fn no_engine(place: Place) -> Fault {
    let started = match place.launcher {
        Launcher::Mpirun => "mpirun",
        Launcher::Torchrun => "the variables RANK and WORLD_SIZE",
        Launcher::Slurm => "Slurm",
    };
    let hint = if cfg!(feature = "mpi") {
        "start the ranks with `mpirun -n N`, or with `srun --mpi=pmix`; torchrun's ranks need a program built with \
         `--features nccl`. For one process, unset the launcher's variables"
    } else {
        "build with `--features mpi` (CPU, or any device) or `--features nccl` (NVIDIA GPUs). For one process, unset the launcher's \
         variables, or use `srun -n 1`"
    };
    Fault::new(format!("{started} started several ranks, and this program cannot sum over them"))
        .got(format!("rank {} of {}", place.rank, place.size))
        .expected("one process, or an engine that connects them")
        .hint(hint)
}

/// Lets the first rank speak first when something went wrong; the number of a later one, to say who speaks.
pub fn give_way(place: Option<&Place>) -> Option<usize> {
    let rank = place.filter(|place| place.size > 1 && place.rank > 0)?.rank;
    std::thread::sleep(GIVE_WAY);
    Some(rank)
}

/// Ends this process's part in its group; the last thing that a process does. With a status other than 0 all ranks end.
pub fn leave(status: u8) {
    if let Some(group) = GROUP.get() {
        group.leave(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ranks_without_an_engine_are_refused_with_what_to_do() {
        for launcher in [Launcher::Mpirun, Launcher::Torchrun, Launcher::Slurm] {
            let fault = no_engine(Place { rank: 1, size: 2, local_rank: 1, local_size: None, launcher });
            assert_eq!(fault.got.as_deref(), Some("rank 1 of 2"));
            assert!(fault.hint.is_some_and(|hint| hint.contains("--features")));
        }
    }
}
