//! Named tensors in one safetensors file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{Device, Tensor};
use safetensors::{Dtype, View};

use crate::error::{Error, Fault, Result};

/// Writes tensors in the order of their names, with the metadata that transformers asks for. The caller makes the write
/// atomic by doing it inside [`crate::run::atomic::write_folder`].
///
/// # Errors
/// [`Error::Write`] with the path; tensor errors.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let fail = |error: &dyn std::fmt::Display| Error::write(path, std::io::Error::other(error.to_string()));
    let views = tensors.iter().map(|(name, tensor)| Ok((name.as_str(), OnHost(tensor.to_device(&Device::Cpu)?))));
    let views: Vec<(&str, OnHost)> = views.collect::<Result<_>>()?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(views, Some(metadata), path).map_err(|error| fail(&error))?;
    let file = std::fs::File::open(path).map_err(|error| fail(&error))?;
    file.sync_all().map_err(|error| fail(&error))
}

/// A tensor on the CPU, whose bytes can always be had.
struct OnHost(Tensor);

impl View for OnHost {
    fn dtype(&self) -> Dtype {
        View::dtype(&self.0)
    }
    fn shape(&self) -> &[usize] {
        self.0.dims()
    }
    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        View::data(&self.0)
    }
    fn data_len(&self) -> usize {
        View::data_len(&self.0)
    }
}

/// Reads the tensors of one safetensors file.
///
/// # Errors
/// [`Error::Read`], or a [`Fault`] naming the file if it is cut or not in the format.
pub fn read_tensors(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    parse_tensors(&bytes, path, device)
}

/// [`read_tensors`] of bytes that are already read; `path` names them in errors.
pub(super) fn parse_tensors(bytes: &[u8], path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let tensors = candle_core::safetensors::load_buffer(bytes, device).map_err(|error| {
        Fault::new(format!("not a whole safetensors file: {error}"))
            .at(path.display())
            .hint("the file was cut or changed after it was written; write or download it again")
    })?;
    Ok(tensors.into_iter().collect())
}
