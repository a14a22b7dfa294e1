//! Ranks: the processes that train and answer together, one a device or a part of the cores.
//!
//! In: the launcher's variables. Out: a [`Group`], the one thing that the rest of the program knows of other processes. It can do two
//! things, sum numbers and hand bytes around; whatever else ranks need is made of these. Every call is collective: all ranks make the
//! same calls in the same order. A rank that fails ends its process, and with it the others ([`leave`]): none waits for ever.

mod cores;
mod deal;
mod environment;
#[cfg(feature = "mpi")]
mod message_passing;
#[cfg(feature = "nccl")]
mod nccl;
#[cfg(any(feature = "nccl", test))]
mod rendezvous;
mod start;

use candle_core::{DType, Device, Tensor};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use cores::share_cores;
pub use deal::{deal, dealt, in_order};
pub use environment::{Launcher, Place};
pub use start::{give_way, leave, start};

use crate::error::{Error, Fault, Result};

/// The processes that work together, as one of them sees them.
pub trait Group: Send + Sync {
    /// This process's number, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Sums over all ranks, element by element and in place; every rank gets the same bits.
    ///
    /// # Errors
    /// [`Error::Failed`] if the ranks cannot be reached.
    fn sum_f32(&self, values: &mut [f32]) -> Result<()>;

    /// What every rank gave, by rank, on every rank.
    ///
    /// # Errors
    /// [`Error::Failed`] if the ranks cannot be reached.
    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// The sum of a tensor over all ranks, of its shape, f32, where it is: through this process's memory, unless an engine reads the
    /// device's.
    ///
    /// # Errors
    /// As [`Group::sum_f32`]; tensor errors.
    fn sum(&self, tensor: &Tensor) -> Result<Tensor> {
        let host = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?;
        let mut values: Vec<f32> = host.to_vec1()?;
        self.sum_f32(&mut values)?;
        Ok(Tensor::from_vec(values, tensor.shape(), &Device::Cpu)?.to_device(tensor.device())?)
    }

    /// Ends this process's part: orderly with status 0, else with the end of all others.
    fn leave(&self, _status: u8) {}
}

/// One process, without others: sums are what they were.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn sum_f32(&self, _: &mut [f32]) -> Result<()> {
        Ok(())
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![own.to_vec()])
    }

    fn sum(&self, tensor: &Tensor) -> Result<Tensor> {
        Ok(tensor.clone())
    }
}

impl dyn Group + '_ {
    /// Whether this is the rank that writes files and talks.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether there is no other rank.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    /// As [`Group::gather`].
    pub fn wait(&self) -> Result<()> {
        if self.is_alone() { Ok(()) } else { self.gather(&[]).map(drop) }
    }

    /// Whether it is so on any rank.
    ///
    /// # Errors
    /// As [`Group::gather`].
    pub fn any(&self, here: bool) -> Result<bool> {
        if self.is_alone() {
            return Ok(here);
        }
        Ok(self.gather(&[u8::from(here)])?.iter().any(|flag| flag == &[1]))
    }

    /// The value of every rank, by rank. Numbers that are not finite have no place in them: they travel as JSON.
    ///
    /// # Errors
    /// As [`Group::gather`]; [`Error::Failed`] for a value that cannot travel.
    pub fn exchange<T: Serialize + DeserializeOwned>(&self, own: T) -> Result<Vec<T>> {
        if self.is_alone() {
            return Ok(vec![own]);
        }
        let bytes = serde_json::to_vec(&own).map_err(|error| unreadable(&error))?;
        drop(own);
        let all = self.gather(&bytes)?;
        all.iter().map(|bytes| serde_json::from_slice(bytes).map_err(|error| unreadable(&error))).collect()
    }

    /// What the first rank makes, on every rank; only there `make` is called.
    ///
    /// # Errors
    /// What `make` returns, on the first rank; as [`Group::gather`].
    pub fn from_first<T: Serialize + DeserializeOwned>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_first() {
            let all = self.gather(&[])?;
            let first = all.first().map(Vec::as_slice).unwrap_or_default();
            return serde_json::from_slice(first).map_err(|error| unreadable(&error));
        }
        let made = make()?;
        if !self.is_alone() {
            self.gather(&serde_json::to_vec(&made).map_err(|error| unreadable(&error))?)?;
        }
        Ok(made)
    }

    /// Holds that all ranks have the same; `what` says of what, in the plural.
    ///
    /// # Errors
    /// A [`Fault`] naming the ranks that differ from the first; as [`Group::gather`].
    pub fn agree(&self, what: &str, own: &str) -> Result<()> {
        if self.is_alone() {
            return Ok(());
        }
        let all = self.gather(own.as_bytes())?;
        let differ = all.iter().enumerate().filter(|(_, other)| **other != all[0]).map(|(rank, _)| rank.to_string());
        let differ: Vec<String> = differ.collect();
        if differ.is_empty() {
            return Ok(());
        }
        Err(Fault::new(format!("the ranks do not have the same {what}"))
            .got(format!("others than rank 0 on rank {}", differ.join(", ")))
            .hint("start every rank with the same command, program and files; the run folder must be on a disk that all ranks see")
            .into())
    }
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::Failed(format!("what one rank told the others cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_is_told_only_what_it_says() {
        let alone: &dyn Group = &Alone;
        assert!(alone.is_first() && alone.is_alone());
        assert_eq!(alone.exchange(f64::NAN).unwrap().len(), 1);
        assert_eq!(alone.from_first(|| Ok(3)).unwrap(), 3);
        assert!(alone.any(true).unwrap() && !alone.any(false).unwrap());
        let tensor = Tensor::new(&[1.5_f32, -0.0], &Device::Cpu).unwrap();
        assert_eq!(alone.sum(&tensor).unwrap().to_vec1::<f32>().unwrap(), [1.5, -0.0]);
        alone.agree("settings", "a").unwrap();
    }
}
