//! Where an endpoint is: a base URL, with or without its version.

use std::fmt;

use serde::{Deserialize, Serialize};
use ureq::http::Uri;

use crate::error::Fault;

/// The base URL of an endpoint, such as `https://host/v1`, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    base: String,
    link: Link,
}

/// How far what is sent can be read by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// TLS.
    Encrypted,
    /// Plain, but within this machine.
    Local,
    /// Plain, over a network.
    Open,
}

impl Address {
    /// Where chat completions are asked for.
    pub fn chat_completions(&self) -> String {
        format!("{}/chat/completions", self.base)
    }

    /// The base URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether others on the way could read a key: plain HTTP to another machine.
    pub fn is_open(&self) -> bool {
        self.link == Link::Open
    }

    /// Whether TLS hides what is sent from a proxy on the way.
    pub fn is_encrypted(&self) -> bool {
        self.link == Link::Encrypted
    }
}

impl TryFrom<String> for Address {
    type Error = Fault;

    /// A path with a version anywhere is taken as it is (`/v1`, `/api/v1`, `/v1beta/openai`); any other gets `/v1`.
    fn try_from(text: String) -> Result<Self, Fault> {
        // The text may hold credentials: faults never repeat it.
        let fault = |what: &str| {
            Fault::new(format!("the endpoint's URL {what}"))
                .expected("e.g. `http://127.0.0.1:8000` or `https://host/v1`")
        };
        let uri: Uri = text.trim().parse().map_err(|_| fault("cannot be read"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(fault("must start with http:// or https://"));
        };
        if authority.as_str().contains('@') {
            let hint = "name the environment variable that holds the key instead";
            return Err(fault("must not hold a user or password").hint(hint));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(fault("must have no query and no fragment"));
        }
        let link = match (scheme, is_this_machine(authority.host())) {
            ("https", _) => Link::Encrypted,
            ("http", true) => Link::Local,
            ("http", false) => Link::Open,
            _ => return Err(fault("must start with http:// or https://")),
        };
        let mut path = uri.path().trim_end_matches('/');
        while let Some(base) = path.strip_suffix("/chat/completions") {
            path = base.trim_end_matches('/');
        }
        let version = if path.split('/').any(is_version) { "" } else { "/v1" };
        Ok(Self { base: format!("{scheme}://{authority}{path}{version}"), link })
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.base
    }
}

impl std::str::FromStr for Address {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        Self::try_from(text.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.base)
    }
}

/// `v1`, `v1beta`, `v2`.
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()))
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
