//! Ranks over MPI, by the `mpi` crate: any machine, any device whose gradients can be copied to memory.
//!
//! MPI's own error handler ends every rank when one is lost, as `mpirun` does.

use std::sync::{Mutex, PoisonError};

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _};

use super::{Group, Launcher, Place};
use crate::error::{Error, Fault, Result};

/// Values of one reduction: bounds the buffer beside them, and fits MPI's 32-bit counts.
const CHUNK: usize = 1 << 24;

/// See the module.
pub(super) struct MessagePassing {
    rank: usize,
    size: usize,
    /// Taken for each call: MPI was started for one call at a time.
    world: Mutex<World>,
}

struct World {
    communicator: SimpleCommunicator,
    /// Gone once the ranks have parted.
    universe: Option<Universe>,
}

// SAFETY: the handles are those of MPI_COMM_WORLD, which no thread owns; MPI was asked for calls from any thread, one at a time, and the
// mutex around them holds to that.
unsafe impl Send for World {}

/// Whether this launcher's ranks find each other by MPI.
pub(super) fn is_reachable(place: Place) -> bool {
    match place.launcher {
        Launcher::Mpirun => true,
        Launcher::Slurm => ["PMIX_RANK", "PMI_RANK", "PMI2_RANK"].iter().any(|name| std::env::var_os(name).is_some()),
        Launcher::Torchrun => false,
    }
}

impl MessagePassing {
    /// Starts MPI.
    ///
    /// # Errors
    /// A [`Fault`] if MPI sees other ranks than the launcher's variables tell of, or cannot be called from another thread.
    pub(super) fn connect(place: Place) -> Result<Self> {
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)
            .ok_or_else(|| Error::Failed("MPI was started before".to_owned()))?;
        let communicator = universe.world();
        let (rank, size) = (communicator.rank() as usize, communicator.size() as usize);
        if size != place.size {
            return Err(Fault::new("MPI does not see the ranks that the launcher started")
                .got(format!("{size} ranks"))
                .expected(format!("{} ranks", place.size))
                .hint("use the mpirun of the Open MPI that this program was built with, or `srun --mpi=pmix`")
                .into());
        }
        if threading < Threading::Serialized {
            return Err(Fault::new("this MPI cannot be called from more than one thread").into());
        }
        Ok(Self { rank, size, world: Mutex::new(World { communicator, universe: Some(universe) }) })
    }

    fn with_world<R>(&self, call: impl FnOnce(&mut World) -> R) -> R {
        call(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Group for MessagePassing {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
        let mut sums = vec![0.0_f32; values.len().min(CHUNK)];
        self.with_world(|world| {
            for chunk in values.chunks_mut(CHUNK) {
                let sums = &mut sums[..chunk.len()];
                world.communicator.all_reduce_into(&*chunk, sums, SystemOperation::sum());
                chunk.copy_from_slice(sums);
            }
        });
        Ok(())
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.with_world(|world| {
            let mut lengths = vec![0_u64; self.size];
            world.communicator.all_gather_into(&(own.len() as u64), lengths.as_mut_slice());
            let too_much =
                || Error::Failed("the ranks have more to tell each other than MPI can carry at once".to_owned());
            let mut counts = Vec::with_capacity(self.size);
            let mut starts = Vec::with_capacity(self.size);
            let mut total: i32 = 0;
            for length in lengths {
                let count = i32::try_from(length).map_err(|_| too_much())?;
                counts.push(count);
                starts.push(total);
                total = total.checked_add(count).ok_or_else(too_much)?;
            }
            if total == 0 {
                return Ok(vec![Vec::new(); self.size]);
            }
            // An empty slice may point to 1, which is what Open MPI's marker for "in place" is: one byte more, not sent, gives an address.
            let own = [own, &[0]].concat();
            let own = &own[..own.len() - 1];
            let mut all = vec![0_u8; total as usize];
            {
                let mut partition = PartitionMut::new(all.as_mut_slice(), counts.as_slice(), starts.as_slice());
                world.communicator.all_gather_varcount_into(own, &mut partition);
            }
            let part = |(&start, &count): (&i32, &i32)| all[start as usize..(start + count) as usize].to_vec();
            Ok(starts.iter().zip(&counts).map(part).collect())
        })
    }

    fn leave(&self, status: u8) {
        self.with_world(|world| match status {
            // Waits for the others.
            0 => drop(world.universe.take()),
            status => world.communicator.abort(i32::from(status)),
        });
    }
}
