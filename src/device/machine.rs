//! What this build and this machine have of devices.

use candle_core::Device;

use crate::error::Fault;

/// Why a device cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The program was built without it. Holds the feature.
    Feature(&'static str),
    /// The driver does not start. Holds the driver's own words.
    Driver(String),
    /// There is none on this machine. Holds its kind.
    Gpu(&'static str),
    /// It is there and does not open. Holds the driver's own words.
    Open(String),
}

const HINT: &str = "--device cpu needs none of it";

impl Missing {
    /// What is missing, in words.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Feature(feature) => Fault::new(format!("this program was built without the feature `{feature}`"))
                .got("a build for the CPU")
                .expected(format!("one made by `cargo build --release --features {feature}`"))
                .hint(format!("README says what that build needs; {HINT}")),
            Self::Driver(words) => Fault::new("the NVIDIA driver does not start")
                .got(words)
                .expected("a driver for CUDA 13.0 or newer, and a GPU that `nvidia-smi` lists")
                .hint(format!(
                    "a stub of libcuda, for linking, must not come before the driver's own on the library path; {HINT}"
                )),
            Self::Gpu(kind) => Fault::new(format!("this machine has no {kind} GPU")).hint(HINT),
            Self::Open(words) => Fault::new("the GPU does not open")
                .got(words)
                .expected("a GPU with free memory, that no other process holds alone")
                .hint(format!("`nvidia-smi` shows who uses it; {HINT}")),
        }
    }
}

/// What devices are asked of: this machine, or in tests another one.
pub trait Machine {
    /// NVIDIA GPUs that the driver sees.
    ///
    /// # Errors
    /// The feature or the driver is missing.
    fn count_cuda(&self) -> Result<usize, Missing>;

    /// Opens an NVIDIA GPU by its number.
    ///
    /// # Errors
    /// What is missing.
    fn open_cuda(&self, ordinal: usize) -> Result<Device, Missing>;

    /// Opens Apple's GPU.
    ///
    /// # Errors
    /// What is missing.
    fn open_metal(&self) -> Result<Device, Missing>;
}

/// The machine that the program runs on.
#[derive(Debug, Clone, Copy)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    #[cfg(feature = "cuda")]
    fn count_cuda(&self) -> Result<usize, Missing> {
        use candle_core::cuda_backend::cudarc::driver::CudaContext;
        let count = CudaContext::device_count().map_err(|error| Missing::Driver(error.to_string()))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    #[cfg(not(feature = "cuda"))]
    fn count_cuda(&self) -> Result<usize, Missing> {
        Err(Missing::Feature("cuda"))
    }

    fn open_cuda(&self, ordinal: usize) -> Result<Device, Missing> {
        if !cfg!(feature = "cuda") {
            return Err(Missing::Feature("cuda"));
        }
        Device::new_cuda(ordinal).map_err(|error| Missing::Open(first_line(&error)))
    }

    fn open_metal(&self) -> Result<Device, Missing> {
        if !cfg!(feature = "metal") {
            return Err(Missing::Feature("metal"));
        }
        Device::new_metal(0).map_err(|error| Missing::Open(first_line(&error)))
    }
}

/// Without the backtrace that Candle may add.
fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
