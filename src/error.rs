//! The one error type: its class decides the exit status, its parts say what, where, got, expected and a hint.

use std::fmt;
use std::path::{Path, PathBuf};

/// Shorthand used throughout the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One thing wrong with an input, a recipe or the usage.
///
/// Sensitive values (targets, payloads, keys) never go into a fault: name the row, the field or the id instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, e.g. `` `loss.beta` must be above 0 ``.
    pub what: String,
    /// File, line, row or key.
    pub place: Option<String>,
    /// The offending value, when it cannot be sensitive.
    pub got: Option<String>,
    /// What would have been accepted.
    pub expected: Option<String>,
    /// A next step for the user.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault with only its description.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), place: None, got: None, expected: None, hint: None }
    }

    /// Adds the place: file, line, row or key.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = Some(place.to_string());
        self
    }

    /// Adds the offending value.
    #[must_use]
    pub fn got(mut self, got: impl fmt::Display) -> Self {
        self.got = Some(got.to_string());
        self
    }

    /// Adds what was expected.
    #[must_use]
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    /// Adds a hint, printed on its own line.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(formatter, "{place}: ")?;
        }
        write!(formatter, "{}", self.what)?;
        if let Some(got) = &self.got {
            write!(formatter, ", got `{got}`")?;
        }
        if let Some(expected) = &self.expected {
            write!(formatter, ", expected {expected}")?;
        }
        Ok(())
    }
}

/// Everything that can end a command early; [`Error::exit_status`] is the contract with the shell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid input or recipe, or wrong usage: exit 2. All faults found, not only the first.
    #[error("{}", join(.0))]
    Invalid(Vec<Fault>),
    /// An input could not be read: exit 2.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The input.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// An output could not be written: exit 1.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The work itself failed: exit 1.
    #[error("{0}")]
    Failed(String),
    /// A gate (an audit or a `--fail-*` threshold) did not hold: exit 3.
    #[error("{0}")]
    Gate(String),
    /// Interrupted by the user: exit 130.
    #[error("interrupted")]
    Interrupted,
    /// A tensor operation failed: exit 1.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
}

fn join(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Invalid(vec![fault])
    }
}

impl Error {
    /// An unreadable input.
    pub fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read { path: path.to_path_buf(), source }
    }

    /// An unwritable output.
    pub fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write { path: path.to_path_buf(), source }
    }

    /// 1 the work failed, 2 wrong usage or input, 3 a gate failed, 130 interrupted.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Invalid(_) | Self::Read { .. } => 2,
            Self::Write { .. } | Self::Failed(_) | Self::Tensor(_) => 1,
            Self::Gate(_) => 3,
            Self::Interrupted => 130,
        }
    }

    /// The hints of all faults, for the command line to print on their own lines.
    pub fn hints(&self) -> Vec<&str> {
        match self {
            Self::Invalid(faults) => faults.iter().filter_map(|fault| fault.hint.as_deref()).collect(),
            _ => Vec::new(),
        }
    }
}
