//! Checks over candidate rows; only this module can construct an audited row.
