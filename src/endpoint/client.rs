//! The client: pace, attempts, retries, cache and counts around one HTTP call.

use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};

use super::cache::{Cache, Cached, name};
use super::key::Key;
use super::pace::{Pace, sleep};
use super::{Backoff, CallError, Chat, ChatReply, ChatRequest, Counts, EndpointSettings, read_retry_after};
use crate::error::{Error, Result};
use crate::run::seed::Seed;

/// No reply is larger: it would be an error page or an attack.
const MAX_BODY: u64 = 32 << 20;

/// Failed requests in a row after which an endpoint is asked no more: an endpoint that is down must not cost every request
/// all its retries.
const MOST_FAILURES: usize = 8;

/// A client of one endpoint; threads may share it.
#[derive(Debug)]
pub struct Client {
    settings: EndpointSettings,
    key: Option<Key>,
    agent: ureq::Agent,
    cache: Option<Cache>,
    pace: Pace,
    backoff: Backoff,
    seed: Seed,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// Requests that failed since the last success, for reasons of the endpoint.
    failures: usize,
    given_up: Option<CallError>,
}

impl Client {
    /// Prepares a client; nothing is sent. `seed` feeds the jitter of waits and nothing else.
    ///
    /// # Errors
    /// Settings out of range, or a key variable that is not set.
    pub fn new(settings: EndpointSettings, seed: Seed) -> Result<Self> {
        let faults = settings.faults("endpoint");
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        let key = settings.key_env.as_ref().map(super::KeyVariable::read).transpose()?;
        if key.is_some() && settings.url.is_open() {
            tracing::warn!("the key for {} goes over plain HTTP: others on the network can read it", settings.url);
        }
        let timeout = Duration::from_secs_f64(settings.timeout_seconds);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(timeout))
            .max_idle_connections_per_host(settings.concurrency)
            .user_agent(concat!("topalign/", env!("CARGO_PKG_VERSION")));
        // A proxy of the environment sees plain requests whole, the key too; encrypted ones pass it by a tunnel.
        let config = if settings.url.is_encrypted() { config } else { config.proxy(None) };
        Ok(Self {
            key,
            agent: config.build().new_agent(),
            cache: settings.cache.clone().map(Cache::new),
            pace: Pace::new(settings.requests_per_minute),
            backoff: Backoff {
                first: Duration::from_secs_f64(settings.first_wait_seconds),
                longest: Duration::from_secs_f64(settings.longest_wait_seconds),
            },
            seed,
            state: Mutex::default(),
            settings,
        })
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &EndpointSettings {
        &self.settings
    }

    fn with_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cached(&self, name: &str) -> Option<ChatReply> {
        match self.cache.as_ref()?.read(name) {
            Cached::Reply(reply) => {
                self.with_state(|state| state.counts.cache_hits += 1);
                Some(*reply)
            }
            Cached::Nothing => None,
            Cached::Damaged => {
                self.with_state(|state| state.counts.cache_damaged += 1);
                None
            }
        }
    }

    /// All attempts at one request.
    fn ask(&self, name: &str, body: &[u8]) -> Result<ChatReply, CallError> {
        let mut jitter = self.seed.stream(&format!("endpoint/{name}"));
        let mut retry = 0;
        loop {
            self.pace.wait()?;
            let error = match self.call(body) {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if !error.is_transient() || retry >= self.settings.retries {
                return Err(error);
            }
            let asked_for = match &error {
                CallError::Status { retry_after, .. } => *retry_after,
                _ => None,
            };
            let Some(wait) = self.backoff.wait(retry, jitter.random(), asked_for) else { return Err(error) };
            if let Some(pause) = asked_for {
                self.pace.hold(pause);
            }
            tracing::debug!("{}: {error}; again in {:.2} s", self.settings.url, wait.as_secs_f64());
            sleep(wait)?;
            retry += 1;
            self.with_state(|state| state.counts.retries += 1);
        }
    }

    /// One attempt.
    fn call(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        self.with_state(|state| state.counts.calls += 1);
        let started = Instant::now();
        let mut request =
            self.agent.post(self.settings.url.chat_completions()).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header().clone());
        }
        let mut response = request.send(body).map_err(|error| self.describe(error, CallError::Connection))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(CallError::Redirect(status.as_u16()));
        }
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| read_retry_after(value.to_str().ok()?, jiff::Timestamp::now()));
        let bytes = response.body_mut().with_config().limit(MAX_BODY).read_to_vec();
        if !status.is_success() {
            // The status alone decides; a body that cannot be read only costs the server's code.
            let code = bytes.ok().and_then(|bytes| self.error_code(&bytes));
            return Err(CallError::Status { status: status.as_u16(), code, retry_after });
        }
        let bytes = bytes.map_err(|error| self.describe(error, |_| CallError::Cut))?;
        let reply = ChatReply::read(&bytes)?;
        self.with_state(|state| state.counts.add_reply(&reply, started.elapsed()));
        Ok(reply)
    }

    /// The transport's error without anything that was sent or received.
    fn describe(&self, error: ureq::Error, other: impl FnOnce(String) -> CallError) -> CallError {
        match error {
            ureq::Error::Timeout(_) => CallError::Timeout(Duration::from_secs_f64(self.settings.timeout_seconds)),
            ureq::Error::Io(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                CallError::Timeout(Duration::from_secs_f64(self.settings.timeout_seconds))
            }
            ureq::Error::Io(error) => other(error.kind().to_string()),
            ureq::Error::HostNotFound => other("the host is not known".to_owned()),
            ureq::Error::BodyExceedsLimit(limit) => CallError::TooLarge(limit),
            ureq::Error::Protocol(_) => other("the answer is not HTTP".to_owned()),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => other("TLS failed".to_owned()),
            _ => other("the transport failed".to_owned()),
        }
    }

    /// `error.code` or `error.type` of an error body if it is a plain word: messages of servers quote keys and prompts.
    fn error_code(&self, body: &[u8]) -> Option<String> {
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        let error = value.get("error")?;
        let is_plain = |code: &&str| {
            code.len() <= 40
                && !code.is_empty()
                && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                && !self.key.as_ref().is_some_and(|key| key.is_in(code))
        };
        ["code", "type"].iter().find_map(|field| error.get(field)?.as_str().filter(is_plain)).map(str::to_owned)
    }

    /// Counts the end of a request, and gives the endpoint up when too many have failed in a row.
    fn end(&self, outcome: &Result<ChatReply, CallError>) {
        self.with_state(|state| match outcome {
            Ok(_) => state.failures = 0,
            Err(error) => {
                state.counts.failures += 1;
                if error.concerns_endpoint() {
                    state.failures += 1;
                    if state.failures >= MOST_FAILURES && state.given_up.is_none() {
                        tracing::warn!(
                            "{}: given up after {MOST_FAILURES} failed requests in a row: {error}",
                            self.settings.url
                        );
                        let last = Box::new(error.clone());
                        state.given_up = Some(CallError::GivenUp { failures: MOST_FAILURES, last });
                    }
                }
            }
        });
    }
}

impl Chat for Client {
    fn model(&self) -> &str {
        &self.settings.model
    }

    fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let body = request.body(&self.settings);
        let name = name(&self.settings.url, &body);
        self.with_state(|state| state.counts.requests += 1);
        if let Some(reply) = self.cached(&name) {
            return Ok(reply);
        }
        let outcome = match self.with_state(|state| state.given_up.clone()) {
            Some(error) => Err(error),
            None => self.ask(&name, &body),
        };
        self.end(&outcome);
        if let (Ok(reply), Some(cache)) = (&outcome, &self.cache)
            && let Err(error) = cache.write(&name, reply)
        {
            // The reply is at hand; only a later run pays for it again.
            tracing::warn!("a reply could not be cached: {error}");
        }
        outcome
    }

    fn counts(&self) -> Counts {
        let mut counts = self.with_state(|state| state.counts.clone()).summed_up();
        let prices = self.settings.prices.filter(|_| counts.uncounted_replies == 0);
        counts.cost = prices.map(|prices| prices.of(counts.prompt_tokens, counts.completion_tokens));
        counts
    }
}
