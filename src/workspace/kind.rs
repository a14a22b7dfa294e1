//! Areas of a workspace.

use serde::{Deserialize, Serialize};

use crate::observation::SchemaGroup;

/// Where a record lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Mail that was received.
    Email,
    /// The calendar.
    Event,
    /// Documents.
    File,
    /// Customers.
    Customer,
    /// Projects.
    Project,
    /// Notes of therapy sessions.
    Therapy,
    /// Notes on staff.
    Professional,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Email, Self::Event, Self::File, Self::Customer, Self::Project, Self::Therapy, Self::Professional];

    /// Its public name, as requests and the search have it.
    pub fn area(self) -> &'static str {
        match self {
            Self::Email => "inbox",
            Self::Event => "calendar",
            Self::File => "files",
            Self::Customer => "customer records",
            Self::Project => "projects",
            Self::Therapy => "therapy notes",
            Self::Professional => "professional notes",
        }
    }

    /// The area of this name.
    pub fn of_area(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.area() == name)
    }

    /// The first part of its records' ids.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Event => "event",
            Self::File => "file",
            Self::Customer => "customer",
            Self::Project => "project",
            Self::Therapy => "therapy",
            Self::Professional => "staff",
        }
    }

    /// Private values stand in running text.
    pub fn is_prose(self) -> bool {
        matches!(self, Self::Email | Self::File)
    }

    /// How what is returned relates to what can be shown: fields keep their names, running text has none.
    pub(super) fn schema_group(self) -> SchemaGroup {
        if self.is_prose() { SchemaGroup::Partial } else { SchemaGroup::Match }
    }
}
