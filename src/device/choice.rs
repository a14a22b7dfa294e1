//! `--device` as it is typed, and the one function that opens what it names.

use std::fmt;
use std::str::FromStr;

use candle_core::Device;

use super::machine::{Machine, Missing, ThisMachine};
use crate::error::{Fault, Result};

/// What `--device` names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU that this build and this machine have, else the CPU.
    Auto,
    /// The CPU: the default and the reference.
    #[default]
    Cpu,
    /// One NVIDIA GPU by its number.
    Cuda(usize),
    /// All NVIDIA GPUs: each rank takes one.
    CudaAll,
    /// Apple's GPU.
    Metal,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "cuda:all" => Ok(Self::CudaAll),
            "metal" => Ok(Self::Metal),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| "expected auto, cpu, cuda:0 (or another number), cuda:all or metal".to_owned()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(number) => write!(formatter, "cuda:{number}"),
            Self::CudaAll => formatter.write_str("cuda:all"),
            Self::Metal => formatter.write_str("metal"),
        }
    }
}

/// The number of the GPU that a rank takes under `cuda:all`: one after the other, and from the first again where there are more
/// ranks than GPUs. A process alone is rank 0 and takes the first.
///
/// `None` where there is no GPU.
pub fn ordinal_of_rank(rank: usize, gpus: usize) -> Option<usize> {
    rank.checked_rem(gpus)
}

impl DeviceChoice {
    /// What kind of device it is, whatever its number: devices of one kind compute alike.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Cuda(_) | Self::CudaAll => "cuda",
            Self::Metal => "metal",
        }
    }

    /// Opens the device of one rank; a process alone is rank 0.
    ///
    /// # Errors
    /// A [`Fault`] naming what is missing: the feature, the driver, the GPU.
    pub fn open(self, rank: usize) -> Result<Device> {
        self.open_on(&ThisMachine, rank)
    }

    /// Opens the device of one rank on a machine: the one place where a device is chosen.
    ///
    /// # Errors
    /// A [`Fault`] naming what is missing.
    pub fn open_on(self, machine: &dyn Machine, rank: usize) -> Result<Device> {
        let missing = |missing: Missing| self.fault(&missing).into();
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Auto => Ok(automatic(machine, rank)),
            Self::Metal => machine.open_metal().map_err(missing),
            Self::Cuda(ordinal) => {
                let gpus = machine.count_cuda().map_err(missing)?;
                if ordinal >= gpus {
                    return Err(self.beyond(gpus).into());
                }
                machine.open_cuda(ordinal).map_err(missing)
            }
            Self::CudaAll => {
                let gpus = machine.count_cuda().map_err(missing)?;
                let ordinal = ordinal_of_rank(rank, gpus).ok_or_else(|| self.beyond(0))?;
                machine.open_cuda(ordinal).map_err(missing)
            }
        }
    }

    fn fault(self, missing: &Missing) -> Fault {
        missing.fault().at(format!("--device {self}"))
    }

    fn beyond(self, gpus: usize) -> Fault {
        let expected = match gpus {
            0 => "a machine with an NVIDIA GPU".to_owned(),
            1 => "cuda:0, the only one".to_owned(),
            _ => format!("cuda:0 to cuda:{}", gpus - 1),
        };
        Fault::new("no such NVIDIA GPU")
            .at(format!("--device {self}"))
            .got(match gpus {
                1 => "1 GPU".to_owned(),
                _ => format!("{gpus} GPUs"),
            })
            .expected(expected)
            .hint("`nvidia-smi -L` lists those that the driver sees; CUDA_VISIBLE_DEVICES may hide some; --device cpu needs none")
    }
}

/// A GPU if there is one that opens, else the CPU.
fn automatic(machine: &dyn Machine, rank: usize) -> Device {
    let cuda = machine.count_cuda().and_then(|gpus| match ordinal_of_rank(rank, gpus) {
        Some(ordinal) => machine.open_cuda(ordinal),
        None => Err(Missing::Gpu("CUDA")),
    });
    let found = cuda.or_else(|missing| {
        tracing::info!("no NVIDIA GPU is used: {}", missing.fault());
        machine.open_metal()
    });
    found.unwrap_or_else(|missing| {
        tracing::info!("no Metal GPU is used: {}; computing on the CPU", missing.fault());
        Device::Cpu
    })
}
