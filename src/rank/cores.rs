//! The cores of a machine shared out among its ranks.

use super::Place;

/// What the thread pools of this program and of its tensor library read.
const THREADS: &str = "RAYON_NUM_THREADS";

/// Gives each rank its part of the machine's cores, unless the launcher bound it to some or the user says how many threads it has.
/// Called once by the binary, before any thread is started.
pub fn share_cores(place: Option<&Place>) {
    let Some(place) = place.filter(|place| place.size > 1) else { return };
    if std::env::var_os(THREADS).is_some() {
        return;
    }
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = threads(available, online(), place.local_size.unwrap_or(1));
    // SAFETY: no other thread is running yet that could read the environment.
    unsafe { std::env::set_var(THREADS, threads.to_string()) };
}

/// A rank that may use fewer cores than there are was bound to its own; else the cores are shared.
fn threads(available: usize, online: usize, ranks: usize) -> usize {
    let own = if available < online { available } else { available / ranks.max(1) };
    own.max(1)
}

/// Cores of the machine.
#[cfg(unix)]
fn online() -> usize {
    // SAFETY: a plain question to the C library.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(1)
}

/// No launcher that this program knows binds ranks to cores there.
#[cfg(not(unix))]
fn online() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_ranks_use_what_they_are_bound_to_and_others_share() {
        for (available, online, ranks, expected) in
            [(16, 64, 4, 16), (64, 64, 4, 16), (2, 2, 4, 1), (3, 3, 2, 1), (8, 8, 1, 8)]
        {
            assert_eq!(threads(available, online, ranks), expected);
        }
    }
}
