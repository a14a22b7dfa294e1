//! A safetensors file tensor by tensor, so that no more than one is held twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Metadata, TensorInfo};

use crate::error::{Error, Fault, Result};

/// No header that anybody writes is longer.
const LONGEST_HEADER: u64 = 100_000_000;

/// An open file whose header fits its length.
pub(super) struct SafetensorsFile {
    path: PathBuf,
    file: File,
    /// Where the tensors' values start.
    start: u64,
    pub(super) metadata: Metadata,
}

impl SafetensorsFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let cannot_read = |source| Error::read(path, source);
        let mut file = File::open(path).map_err(cannot_read)?;
        let length = file.metadata().map_err(cannot_read)?.len();
        let mut size = [0; 8];
        if length < 8 {
            return Err(unusable(path, &"the header is missing"));
        }
        file.read_exact(&mut size).map_err(cannot_read)?;
        let size = u64::from_le_bytes(size);
        if size > LONGEST_HEADER || size + 8 > length {
            return Err(unusable(path, &"the header is longer than the file"));
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header).map_err(cannot_read)?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| unusable(path, &error))?;
        let start = size + 8;
        if metadata.data_len() as u64 != length - start {
            return Err(unusable(path, &"the values are not as long as the header says"));
        }
        Ok(Self { path: path.to_owned(), file, start, metadata })
    }

    /// Hands each tensor, in the number format of the file, to `take`, in the order of their names.
    pub(super) fn read_each(
        mut self,
        device: &Device,
        mut take: impl FnMut(String, Tensor) -> Result<()>,
    ) -> Result<()> {
        let infos: BTreeMap<String, TensorInfo> =
            self.metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        for (name, info) in infos {
            let tensor = self.tensor(&name, &info, device)?;
            take(name, tensor)?;
        }
        Ok(())
    }

    fn tensor(&mut self, name: &str, info: &TensorInfo, device: &Device) -> Result<Tensor> {
        let format = DType::try_from(info.dtype).ok();
        let format = format.filter(|format| matches!(format, DType::F32 | DType::BF16 | DType::F16 | DType::F64));
        let format = format.ok_or_else(|| {
            Fault::new(format!("tensor `{name}` is not a floating-point tensor"))
                .at(self.path.display())
                .got(format!("{:?}", info.dtype))
        })?;
        let (from, to) = info.data_offsets;
        let mut bytes = vec![0; to - from];
        let cannot_read = |source| Error::read(&self.path, source);
        self.file.seek(SeekFrom::Start(self.start + from as u64)).map_err(cannot_read)?;
        self.file.read_exact(&mut bytes).map_err(cannot_read)?;
        Tensor::from_raw_buffer(&bytes, format, &info.shape, device).map_err(|error| unusable(&self.path, &error))
    }
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let text = error.to_string();
    Fault::new(format!("not a whole safetensors file: {}", text.lines().next().unwrap_or_default()))
        .at(path.display())
        .hint("fetch it again; a cut download is the usual cause")
        .into()
}

/// Reads one safetensors file as f32.
///
/// # Errors
/// [`Error::Read`] if it is not there, a [`Fault`] if it is not whole.
pub(super) fn read_safetensors(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    SafetensorsFile::open(path)?.read_each(device, |name, tensor| {
        tensors.insert(name, tensor.to_dtype(DType::F32)?);
        Ok(())
    })?;
    Ok(tensors)
}
