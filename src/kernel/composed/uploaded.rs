//! Tables that a pass makes on the host and every layer reads: moved to the device once.

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Device, DeviceLocation, Result};

/// What was made for the last device and number format that asked.
#[derive(Debug)]
pub struct Uploaded<T>(Mutex<Option<(DeviceLocation, DType, T)>>);

impl<T> Default for Uploaded<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Uploaded<T> {
    /// The table, made if it is not there in this number format on this device.
    pub fn get(&self, device: &Device, dtype: DType, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((location, format, table)) = &*held
            && *location == device.location()
            && *format == dtype
        {
            return Ok(table.clone());
        }
        let table = make()?;
        *held = Some((device.location(), dtype, table.clone()));
        Ok(table)
    }
}
